package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/controllers/scheduler/framework"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/reconcile"
)

// bindTimeout is how long a pod waits until its volumes are bound.
//
//upstream:pkg/scheduler/apis/config/v1.SetDefaults_VolumeBindingArgs
const bindTimeout = 10 * time.Minute

// reservation is a pod that has a node, and waits there until its claims are bound.
type reservation struct {
	pod     *corev1.Pod
	node    string
	claims  []reservedClaim
	expires time.Time
}

// reservedClaim is a claim that a reservation waits for.
type reservedClaim struct {
	key    client.ObjectKey
	volume string // empty if one is provisioned
}

// uses reports whether a reservation waits for a volume.
func (w *reservation) uses(v *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(w.claims, func(c reservedClaim) bool {
		of := v.Spec.ClaimRef
		return c.volume == v.Name || of != nil && c.key == client.ObjectKey{Namespace: of.Namespace, Name: of.Name}
	})
}

// reserve reserves the node of a pod, binds volumes that exist to claims of the pod, and asks the provisioners for the others. The
// binder of claims does the rest. The nomination only tells others, and comes last: writes that are refused again and again do not set and
// clear it each time.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding.Reserve
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.AssumePodVolumes
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.bindAPIUpdate
func (r *reconciler) reserve(ctx context.Context, pod *corev1.Pod, d *framework.Decision) (reconcile.Result, error) {
	w := &reservation{pod: pod, node: d.Node, expires: time.Now().Add(bindTimeout)}
	var err error
	for _, b := range d.Volumes.Bindings {
		if err == nil {
			err = r.client.Update(ctx, r.state.assumeVolume(b))
		}
		w.claims = append(w.claims, reservedClaim{client.ObjectKeyFromObject(b.Claim), b.Volume.Name})
	}
	for _, claim := range d.Volumes.Provisions {
		if err == nil {
			err = r.selectNode(ctx, claim, d.Node)
		}
		w.claims = append(w.claims, reservedClaim{key: client.ObjectKeyFromObject(claim)})
	}
	if err != nil {
		r.unassumeVolumes(ctx, d.Volumes.Bindings)
		return r.fail(ctx, pod, preBindError(err))
	}
	if err := podstate.PatchStatus(ctx, r.client, pod, func(s *corev1.PodStatus) { s.NominatedNodeName = d.Node }); err != nil {
		log.FromContext(ctx).Error(err, "Cannot nominate a pod", "node", d.Node)
	}
	r.state.setReservation(pod.UID, w)
	return r.finish(ctx, pod, w)
}

// unassumeVolumes takes back the assumptions of assumeVolume: the volumes are as the cache has them.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.revertAssumedPVs
func (r *reconciler) unassumeVolumes(ctx context.Context, list []framework.Binding) {
	for _, b := range list {
		v := &corev1.PersistentVolume{}
		if r.client.Get(ctx, client.ObjectKeyFromObject(b.Volume), v) == nil {
			r.retry(r.queue, r.state.updateObject(v, framework.VolumeChanged, time.Now()))
		}
	}
}

// selectNode sets the annotation of a claim with the node that its volume is for.
func (r *reconciler) selectNode(ctx context.Context, claim *corev1.PersistentVolumeClaim, node string) error {
	if claim.Annotations[volume.SelectedNode] == node {
		return nil
	}
	claim = claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.SelectedNode, node)
	return r.client.Update(ctx, claim)
}

// finish binds a pod with a reservation if its claims are bound. If they cannot be, or are not in time, the pod is scheduled again.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.BindPodVolumes
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.checkBindings
func (r *reconciler) finish(ctx context.Context, pod *corev1.Pod, w *reservation) (reconcile.Result, error) {
	bound, err := r.areBound(ctx, w)
	left := time.Until(w.expires)
	switch {
	case err == nil && bound:
		r.state.setReservation(pod.UID, nil) // so that no other event binds it again
		return r.bind(ctx, pod, w.node)
	case err == nil && left > 0:
		return reconcile.Result{RequeueAfter: left}, nil
	case err == nil:
		err = context.DeadlineExceeded
	}
	return r.fail(ctx, pod, preBindError(fmt.Errorf("binding volumes: %w", err)))
}

func preBindError(err error) error {
	return fmt.Errorf("running PreBind plugin \"VolumeBinding\": %w", err)
}

// areBound reports whether the claims of a reservation are bound. It returns an error if they cannot be bound for the node any longer.
func (r *reconciler) areBound(ctx context.Context, w *reservation) (bool, error) {
	node := &corev1.Node{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: w.node}, node); err != nil {
		return false, fmt.Errorf("failed to get node %q: %w", w.node, unlisted(err, "node", w.node))
	}
	for _, c := range w.claims {
		check := r.isProvisioned
		if c.volume != "" {
			check = r.isBound
		}
		if bound, err := check(ctx, c, node); err != nil || !bound {
			return false, err
		}
	}
	return true, nil
}

// isBound reports whether a claim is bound to its volume, which existed before.
func (r *reconciler) isBound(ctx context.Context, c reservedClaim, node *corev1.Node) (bool, error) {
	v, claim := &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: c.volume}, v); err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	if err := r.client.Get(ctx, c.key, claim); err != nil {
		return false, fmt.Errorf("failed to check binding: %w", unlisted(err, "persistentvolumeclaims", c.key.String()))
	}
	if err := checkAffinity(v, node); err != nil {
		return false, err
	}
	if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" {
		return false, fmt.Errorf("ClaimRef got reset for pv %q", v.Name)
	}
	return framework.IsBound(claim), nil
}

// isProvisioned reports whether a claim is bound to the volume that was provisioned for it. A provisioner that does not want the node
// takes the annotation with it away.
func (r *reconciler) isProvisioned(ctx context.Context, c reservedClaim, node *corev1.Node) (bool, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.client.Get(ctx, c.key, claim); err != nil {
		return false, fmt.Errorf("failed to check provisioning pvc: %w", unlisted(err, "persistentvolumeclaims", c.key.String()))
	}
	switch {
	case claim.Annotations == nil:
		return false, fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
	case claim.Annotations[volume.SelectedNode] != node.Name:
		return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
	case claim.Spec.VolumeName == "":
		return false, nil
	}
	v := &corev1.PersistentVolume{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, v); apierrors.IsNotFound(err) {
		return false, nil // the cache may have yet to observe it, and if it was deleted, the claim changes
	} else if err != nil {
		return false, fmt.Errorf("failed to get pv %q from cache: %w", claim.Spec.VolumeName, err)
	}
	return framework.IsBound(claim), checkAffinity(v, node)
}

// unlisted returns the error of a read in the words of kube-scheduler's listers.
func unlisted(err error, resource, key string) error {
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(corev1.Resource(resource), key)
	}
	return err
}

// checkAffinity returns an error if a node cannot use a volume.
func checkAffinity(v *corev1.PersistentVolume, node *corev1.Node) error {
	if !volume.Admits(v, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node.Labels}}) {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: no matching NodeSelectorTerms", v.Name, node.Name)
	}
	return nil
}
