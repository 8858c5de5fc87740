// Package persistentvolume binds PersistentVolumeClaims to PersistentVolumes and maintains the phases of both. If no
// volume matches a claim, and the StorageClass of the claim has a provisioner, annotations of the claim request a
// volume from the provisioner.
//
// For a claim of a StorageClass with the binding mode WaitForFirstConsumer, the scheduler selects the volume, or the node of the
// volume, with the node of a pod that uses the claim. If a pod has a node that its user has set, the claim is bound to a volume that the
// node can use.
//
// A claim is bound in four writes, the volume first, and each reconcile continues where the objects say. A volume is unbound
// again if its claim is bound to another volume.
package persistentvolume

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// betaStorageProvisioner is the old name of the annotation [volume.StorageProvisioner]. Provisioners may still read
// it.
//
//upstream:k8s.io/component-helpers/storage/volume.AnnBetaStorageProvisioner
const betaStorageProvisioner = "volume.beta.kubernetes.io/storage-provisioner"

// inTree is the prefix of the names of provisioners in kube-controller-manager. There are none here. The provisioner
// kubernetes.io/no-provisioner is none anywhere.
const inTree = "kubernetes.io/"

// AddToManager adds the controllers of claims and of volumes.
//
//upstream:pkg/controller/volume/persistentvolume.NewController
func AddToManager(mgr manager.Manager) error {
	if err := podstate.IndexClaims(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := addIndexes(mgr.GetFieldIndexer()); err != nil {
		return err
	}
	recorder := events.RecorderFor(mgr, "persistentvolume-controller")
	claims := &claimReconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: recorder}
	err := builder.ControllerManagedBy(mgr).
		Named("persistentvolume-binder").
		For(&corev1.PersistentVolumeClaim{}).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(claims.ofVolume)).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(claims.withoutVolume)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(podstate.ClaimRequests), builder.WithPredicates(scheduled)).
		Complete(claims)
	if err != nil {
		return err
	}
	return addVolumes(mgr, recorder)
}

// scheduled drops the updates of pods that do not change whether a pod is to be scheduled, which is all that matters for claims.
var scheduled = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, pod := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
	return was.UID != pod.UID || was.Spec.NodeName != pod.Spec.NodeName || podstate.Finished(was) != podstate.Finished(pod)
}}

// claimReconciler binds a claim.
type claimReconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
}

// ofVolume returns the claims that a volume is for, or that name it. A volume without a claim may be for any claim without a
// volume.
func (r *claimReconciler) ofVolume(ctx context.Context, obj client.Object) []reconcile.Request {
	requests := r.naming(ctx, obj.GetName())
	if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil {
		return append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}})
	}
	return append(requests, r.withoutVolume(ctx, obj)...)
}

// withoutVolume returns the claims without a volume.
func (r *claimReconciler) withoutVolume(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.naming(ctx, "")
}

// naming returns the claims that name a volume.
func (r *claimReconciler) naming(ctx context.Context, volume string) []reconcile.Request {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := r.client.List(ctx, claims, client.MatchingFields{byVolume: indexed(volume)}); err != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	for i := range claims.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims.Items[i])})
	}
	return requests
}

// Reconcile implements [reconcile.Reconciler].
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncClaim
func (r *claimReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	err := r.client.Get(ctx, req.NamespacedName, claim)
	switch _, bound := claim.Annotations[volume.BindCompleted]; {
	case err != nil:
	case bound:
		err = r.syncBound(ctx, claim)
	case claim.Spec.VolumeName != "":
		err = r.syncNaming(ctx, claim)
	default:
		err = r.syncUnbound(ctx, claim)
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// syncUnbound binds a claim to a volume that fits, or asks for one.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncUnboundClaim
func (r *claimReconciler) syncUnbound(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class, err := r.class(ctx, claim)
	if err != nil {
		return err
	}
	wait, node := class != nil && volume.WaitsForConsumer(class), (*corev1.Node)(nil)
	if wait {
		if node, err = r.consumer(ctx, claim); err != nil {
			return err
		}
	}
	volumes, err := r.candidates(ctx, claim)
	if err != nil {
		return err
	}
	if v := match(claim, volumes, node, wait); v != nil {
		return r.bind(ctx, claim, v)
	}
	if assigned, err := r.assignDefaultClass(ctx, claim); assigned || err != nil {
		return err // its event is the cause of another reconcile
	}
	switch _, selected := claim.Annotations[volume.SelectedNode]; {
	case wait && node == nil && !selected:
		if err := r.waitForConsumer(ctx, claim); err != nil {
			return err
		}
	case volume.ClassOf(claim) != "":
		return r.provision(ctx, claim, class, node)
	default:
		r.recorder.Event(claim, corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	}
	return r.setStatus(ctx, claim, corev1.ClaimPending, nil)
}

// syncNaming binds a claim to the volume that it names, if possible.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncUnboundClaim
func (r *claimReconciler) syncNaming(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	v := &corev1.PersistentVolume{}
	err := r.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, v)
	switch {
	case apierrors.IsNotFound(err):
		return r.setStatus(ctx, claim, corev1.ClaimPending, nil)
	case err != nil:
		return err
	case volume.IsBoundTo(v, claim):
		return r.bind(ctx, claim, v)
	case v.Spec.ClaimRef != nil:
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "FailedBinding", "volume %q already bound to a different claim.", v.Name)
		if _, ok := claim.Annotations[volume.BoundByController]; ok {
			return nil // somebody has removed the other annotation
		}
		return r.setStatus(ctx, claim, corev1.ClaimPending, nil)
	}
	if reason := refusal(v, claim); reason != "" {
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind to requested volume %q: %s", v.Name, reason)
		return r.setStatus(ctx, claim, corev1.ClaimPending, nil)
	}
	return r.bind(ctx, claim, v)
}

// syncBound repairs a claim that was bound, or finds that it is lost. A live read confirms that.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncBoundClaim
func (r *claimReconciler) syncBound(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName == "" {
		return r.lost(ctx, claim, "ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	v, err := r.boundVolume(ctx, r.client, claim)
	if err == nil && !isBoundExactly(v, claim) {
		v, err = r.boundVolume(ctx, r.live, claim)
	}
	switch {
	case err != nil:
		return err
	case v == nil:
		return r.lost(ctx, claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case v.Spec.ClaimRef == nil, isBoundExactly(v, claim):
		return r.bind(ctx, claim, v)
	default:
		return r.lost(ctx, claim, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
	}
}

// boundVolume reads the volume that a claim names. It returns nil if there is none.
func (r *claimReconciler) boundVolume(ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	v := &corev1.PersistentVolume{}
	err := from.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, v)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return v, err
}

// isBoundExactly reports whether a volume is bound to a claim, and not to an earlier one of the name.
func isBoundExactly(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return v != nil && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == claim.UID
}

// lost sets the phase Lost of a claim, with an event.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.updateClaimStatusWithEvent
func (r *claimReconciler) lost(ctx context.Context, claim *corev1.PersistentVolumeClaim, reason, message string) error {
	if claim.Status.Phase == corev1.ClaimLost {
		return nil
	}
	err := r.setStatus(ctx, claim, corev1.ClaimLost, nil)
	if err == nil {
		r.recorder.Event(claim, corev1.EventTypeWarning, reason, message)
	}
	return err
}

// candidates returns the volumes that are reserved for a claim, and the volumes that are for no claim.
func (r *claimReconciler) candidates(ctx context.Context, claim *corev1.PersistentVolumeClaim) ([]corev1.PersistentVolume, error) {
	reserved, err := volumesFor(ctx, r.client, client.ObjectKeyFromObject(claim).String())
	if err != nil {
		return nil, err
	}
	free, err := volumesFor(ctx, r.client, none)
	return append(reserved, free...), err
}

// assignDefaultClass sets the default StorageClass on a claim that was created before there was one. A claim with
// the class "" asks for none.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.assignDefaultStorageClass
func (r *claimReconciler) assignDefaultClass(ctx context.Context, claim *corev1.PersistentVolumeClaim) (assigned bool, err error) {
	if _, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok || claim.Spec.StorageClassName != nil {
		return false, nil
	}
	classes := &storagev1.StorageClassList{}
	if err := r.client.List(ctx, classes); err != nil {
		return false, err
	}
	name := defaultClass(classes.Items)
	if name == "" {
		return false, nil
	}
	claim.Spec.StorageClassName = &name
	return true, r.client.Update(ctx, claim)
}

// class returns the StorageClass of a claim, or nil if the claim has none or it does not exist.
func (r *claimReconciler) class(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*storagev1.StorageClass, error) {
	name, class := volume.ClassOf(claim), &storagev1.StorageClass{}
	if name == "" {
		return nil, nil
	}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, class); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return class, nil
}

// provision asks the provisioner of a class for a volume for a claim, on a node if that is not nil. class is nil if it does
// not exist.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.provisionClaim
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.provisionClaimOperationExternal
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.findProvisionablePlugin
func (r *claimReconciler) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
	node *corev1.Node) error {
	switch {
	case class == nil:
		r.recorder.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed",
			apierrors.NewNotFound(storagev1.Resource("storageclass"), volume.ClassOf(claim)).Error())
		return nil
	case strings.HasPrefix(class.Provisioner, inTree):
		r.recorder.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", noPlugin(class.Provisioner).Error())
		return nil
	}
	before := maps.Clone(claim.Annotations)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.StorageProvisioner, class.Provisioner)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, betaStorageProvisioner, class.Provisioner)
	if node != nil && claim.Annotations[volume.SelectedNode] == "" {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.SelectedNode, node.Name)
	}
	if maps.Equal(before, claim.Annotations) {
		return nil
	}
	if err := r.client.Update(ctx, claim); err != nil {
		return err
	}
	r.recorder.Eventf(claim, corev1.EventTypeNormal, "ExternalProvisioning", "Waiting for a volume to be created either by the "+
		"external provisioner '%s' or manually by the system administrator. If volume creation is delayed, please verify that "+
		"the provisioner is running and correctly registered.", class.Provisioner)
	return nil
}

// noPlugin is the error for a provisioner that kube-controller-manager does not have.
//
//upstream:pkg/volume.VolumePluginMgr.FindPluginByName
func noPlugin(provisioner string) error {
	return fmt.Errorf("no volume plugin matched name: %s", provisioner)
}

// consumer returns the node of a pod that uses a claim, or nil.
func (r *claimReconciler) consumer(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.Node, error) {
	users, err := podstate.Users(ctx, r.client, client.ObjectKeyFromObject(claim))
	if err != nil {
		return nil, err
	}
	for i := range users {
		p := &users[i]
		if p.Spec.NodeName == "" || podstate.Finished(p) {
			continue
		}
		node := &corev1.Node{}
		err := r.client.Get(ctx, client.ObjectKey{Name: p.Spec.NodeName}, node)
		switch {
		case err == nil:
			return node, nil
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return nil, nil
}

// waitForConsumer records an event with the reason for which a claim waits.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.emitEventForUnboundDelayBindingClaim
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.findNonScheduledPodsByPVC
func (r *claimReconciler) waitForConsumer(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	users, err := podstate.Users(ctx, r.client, client.ObjectKeyFromObject(claim))
	if err != nil {
		return err
	}
	var pods []string
	for i := range users {
		if p := &users[i]; p.Spec.NodeName == "" && !podstate.Finished(p) {
			pods = append(pods, p.Name)
		}
	}
	slices.Sort(pods)
	reason, message := "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
	switch len(pods) {
	case 0:
	case 1:
		reason, message = "WaitForPodScheduled", fmt.Sprintf("waiting for pod %s to be scheduled", pods[0])
	default:
		reason, message = "WaitForPodScheduled", fmt.Sprintf("waiting for pods %s to be scheduled", strings.Join(pods, ","))
	}
	r.recorder.Event(claim, corev1.EventTypeNormal, reason, message)
	return nil
}

// bind binds a claim and a volume to each other, the volume first.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.bind
//upstream:k8s.io/component-helpers/storage/volume.GetBindVolumeToClaim
func (r *claimReconciler) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) error {
	if !isBoundExactly(v, claim) {
		if !volume.IsBoundTo(v, claim) {
			metav1.SetMetaDataAnnotation(&v.ObjectMeta, volume.BoundByController, "yes")
		}
		v.Spec.ClaimRef = volume.ClaimRef(claim)
		if err := r.client.Update(ctx, v); err != nil {
			return err
		}
	}
	if err := setPhase(ctx, r.client, v, corev1.VolumeBound, ""); err != nil {
		return err
	}
	_, completed := claim.Annotations[volume.BindCompleted]
	if claim.Spec.VolumeName == "" {
		claim.Spec.VolumeName = v.Name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.BoundByController, "yes")
	}
	if !completed {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.BindCompleted, "yes")
		if err := r.client.Update(ctx, claim); err != nil {
			return err
		}
	}
	return r.setStatus(ctx, claim, corev1.ClaimBound, v)
}

// setStatus sets the phase of a claim, and what its status has of its volume, which may be nil. When the claim is bound,
// the capacity and the class are up to the one who resizes or modifies the volume.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.updateClaimStatus
func (r *claimReconciler) setStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase,
	v *corev1.PersistentVolume) error {
	before := claim.Status.DeepCopy()
	s := &claim.Status
	if v == nil {
		s.AccessModes, s.Capacity, s.CurrentVolumeAttributesClassName = nil, nil, nil
	} else {
		s.AccessModes = v.Spec.AccessModes
		if s.Phase != phase {
			s.Capacity = v.Spec.Capacity
		}
		if s.Phase == corev1.ClaimPending {
			s.CurrentVolumeAttributesClassName = v.Spec.VolumeAttributesClassName
		}
	}
	s.Phase = phase
	if apiequality.Semantic.DeepEqual(before, s) {
		return nil
	}
	return r.client.Status().Update(ctx, claim)
}
