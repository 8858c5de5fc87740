package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/controllers/scheduler/framework"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
)

// bindTimeout is how long a pod waits until its volumes are bound.
//
//upstream:pkg/scheduler/apis/config/v1.SetDefaults_VolumeBindingArgs
const bindTimeout = 10 * time.Minute

// reservation is a pod that has a node, and waits there until its claims are bound.
type reservation struct {
	node    string
	claims  []client.ObjectKey
	chosen  map[client.ObjectKey]bool // the claims that volumes are provisioned for
	expires time.Time
}

// reserve reserves the node of a pod, binds volumes that exist to claims of the pod, and asks the provisioners for the others. The
// binder of claims does the rest.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding.Reserve
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.AssumePodVolumes
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.bindAPIUpdate
func (r *reconciler) reserve(ctx context.Context, pod *corev1.Pod, d *framework.Decision) (reconcile.Result, error) {
	w := &reservation{node: d.Node, chosen: map[client.ObjectKey]bool{}, expires: time.Now().Add(bindTimeout)}
	err := podstate.PatchStatus(ctx, r.client, pod, func(s *corev1.PodStatus) { s.NominatedNodeName = d.Node })
	for _, b := range d.Volumes.Bindings {
		if err == nil {
			err = r.client.Update(ctx, r.state.assumeVolume(b))
		}
		w.claims = append(w.claims, client.ObjectKeyFromObject(b.Claim))
	}
	for _, claim := range d.Volumes.Provisions {
		key := client.ObjectKeyFromObject(claim)
		if err == nil {
			err = r.selectNode(ctx, claim, d.Node)
		}
		w.claims, w.chosen[key] = append(w.claims, key), true
	}
	if err != nil {
		r.unassumeVolumes(ctx, d.Volumes.Bindings)
		return r.fail(ctx, pod, preBindError(err))
	}
	r.state.setReservation(pod.UID, w)
	return r.finish(ctx, pod, w)
}

// unassumeVolumes takes back what assumeVolume has assumed: the volumes are as the cache has them.
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

// areBound reports whether the claims of a reservation are bound. It returns an error if a provisioner does not want the node.
func (r *reconciler) areBound(ctx context.Context, w *reservation) (bool, error) {
	all := true
	for _, key := range w.claims {
		claim := &corev1.PersistentVolumeClaim{}
		if err := r.client.Get(ctx, key, claim); err != nil {
			return false, fmt.Errorf("failed to check binding: %w", err)
		}
		if w.chosen[key] && claim.Annotations[volume.SelectedNode] != w.node {
			return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
		}
		all = all && framework.IsBound(claim)
	}
	return all, nil
}
