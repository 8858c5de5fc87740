// Package persistentvolume binds PersistentVolumeClaims to PersistentVolumes and maintains the phases of both. If no
// volume matches a claim, and the StorageClass of the claim has a provisioner, annotations of the claim request a
// volume from the provisioner.
//
// A claim of a StorageClass with the binding mode WaitForFirstConsumer is bound when a pod that uses the claim has
// a node, to a volume that the node can use. The scheduler does not consider volumes.
package persistentvolume

import (
	"context"
	"maps"

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
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// The annotations of bound objects.
const (
	//upstream:k8s.io/component-helpers/storage/volume.AnnBindCompleted
	bindCompleted = "pv.kubernetes.io/bind-completed"
	//upstream:k8s.io/component-helpers/storage/volume.AnnBoundByController
	boundByController = "pv.kubernetes.io/bound-by-controller"
)

// betaStorageProvisioner is the old name of the annotation [volume.StorageProvisioner]. Provisioners may still read
// it.
//
//upstream:k8s.io/component-helpers/storage/volume.AnnBetaStorageProvisioner
const betaStorageProvisioner = "volume.beta.kubernetes.io/storage-provisioner"

// noProvisioner is the provisioner of classes that have none.
//
//upstream:k8s.io/component-helpers/storage/volume.NotSupportedProvisioner
const noProvisioner = "kubernetes.io/no-provisioner"

// AddToManager adds the controllers of claims and of volumes.
//
//upstream:pkg/controller/volume/persistentvolume.NewController
func AddToManager(mgr manager.Manager) error {
	if err := podstate.IndexClaims(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.PersistentVolume{}, byClaim, claimOf); err != nil {
		return err
	}
	recorder := events.RecorderFor(mgr, "persistentvolume-controller")
	claims := &claimReconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: recorder}
	hasNode := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.(*corev1.Pod).Spec.NodeName != "" })
	err := builder.ControllerManagedBy(mgr).
		Named("persistentvolume-binder").
		For(&corev1.PersistentVolumeClaim{}).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(claims.ofVolume)).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(claims.pending)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(podstate.ClaimRequests), builder.WithPredicates(hasNode)).
		Complete(claims)
	if err != nil {
		return err
	}
	return addVolumes(mgr)
}

// claimReconciler binds a claim.
type claimReconciler struct {
	client   client.Client
	live     client.Reader
	recorder record.EventRecorder
}

// ofVolume returns the claim of a volume. A volume without a claim may be for any pending claim.
func (r *claimReconciler) ofVolume(ctx context.Context, obj client.Object) []reconcile.Request {
	if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}}}
	}
	return r.pending(ctx, obj)
}

// pending returns the claims that are not bound.
func (r *claimReconciler) pending(ctx context.Context, _ client.Object) []reconcile.Request {
	all := &corev1.PersistentVolumeClaimList{}
	if err := r.client.List(ctx, all); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range all.Items {
		if c := &all.Items[i]; c.Status.Phase != corev1.ClaimBound {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		}
	}
	return requests
}

// Reconcile implements [reconcile.Reconciler].
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncClaim
func (r *claimReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.client.Get(ctx, req.NamespacedName, claim); err != nil || claim.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	v, err := r.volume(ctx, claim)
	if err == nil && v == nil {
		return reconcile.Result{}, r.unbound(ctx, claim)
	}
	if err == nil {
		err = r.bind(ctx, claim, v)
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// volume returns the volume of a claim, or the volume that the claim is to be bound to, or nil.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncUnboundClaim
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncBoundClaim
func (r *claimReconciler) volume(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	if claim.Spec.VolumeName != "" {
		v := &corev1.PersistentVolume{}
		err := r.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, v)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		case bindable(v, claim):
			return v, nil
		}
		r.refused(claim, v)
		return nil, nil
	}
	if assigned, err := r.assignDefaultClass(ctx, claim); assigned || err != nil {
		return nil, err // its event is the cause of another reconcile
	}
	class, err := r.class(ctx, claim)
	if err != nil {
		return nil, err
	}
	node, wait, err := r.consumer(ctx, claim, class)
	if err != nil {
		return nil, err
	}
	volumes, err := r.candidates(ctx, claim)
	if err != nil {
		return nil, err
	}
	v := match(claim, volumes, node)
	if wait && (v == nil || !isBoundTo(v, claim)) {
		r.recorder.Event(claim, corev1.EventTypeNormal, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
		return nil, nil
	}
	if v == nil && class != nil && class.Provisioner != noProvisioner {
		return nil, r.provision(ctx, claim, class, node)
	}
	if v == nil && volume.ClassOf(claim) == "" {
		r.recorder.Event(claim, corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	}
	return v, nil
}

// refused records an event that says why a claim that was never bound is not bound to the volume that it names.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncUnboundClaim
func (r *claimReconciler) refused(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
	switch {
	case claim.Annotations[bindCompleted] != "":
	case v.Spec.ClaimRef != nil:
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "FailedBinding", "volume %q already bound to a different claim.", v.Name)
	default:
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind to requested volume %q: %s", v.Name, refusal(v, claim))
	}
}

// byClaim is the name of the index of volumes by spec.claimRef. Volumes without a claimRef have the value noClaim.
const (
	byClaim = "spec.claimRef"
	noClaim = "none"
)

// claimOf returns the values of a volume in the index byClaim.
func claimOf(o client.Object) []string {
	if ref := o.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil {
		return []string{client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}.String()}
	}
	return []string{noClaim}
}

// volumesFor returns the volumes with a value in the index byClaim.
func volumesFor(ctx context.Context, c client.Reader, value string) ([]corev1.PersistentVolume, error) {
	volumes := &corev1.PersistentVolumeList{}
	err := c.List(ctx, volumes, client.MatchingFields{byClaim: value})
	return volumes.Items, err
}

// candidates returns the volumes that are reserved for a claim, and the volumes that are for no claim.
func (r *claimReconciler) candidates(ctx context.Context, claim *corev1.PersistentVolumeClaim) ([]corev1.PersistentVolume, error) {
	reserved, err := volumesFor(ctx, r.client, client.ObjectKeyFromObject(claim).String())
	if err != nil {
		return nil, err
	}
	free, err := volumesFor(ctx, r.client, noClaim)
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

// provision asks the provisioner of a class for a volume for a claim, on a node if that is not nil.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.provisionClaimOperationExternal
func (r *claimReconciler) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
	node *corev1.Node) error {
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

// consumer returns the node of a pod that uses a claim, if the class of the claim waits for one. wait is true while
// there is none.
func (r *claimReconciler) consumer(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	class *storagev1.StorageClass) (node *corev1.Node, wait bool, err error) {
	if class == nil || !volume.WaitsForConsumer(class) {
		return nil, false, nil
	}
	users, err := podstate.Users(ctx, r.client, client.ObjectKeyFromObject(claim))
	if err != nil {
		return nil, false, err
	}
	for i := range users {
		p := &users[i]
		if p.Spec.NodeName == "" || podstate.Finished(p) {
			continue
		}
		node := &corev1.Node{}
		err := r.client.Get(ctx, client.ObjectKey{Name: p.Spec.NodeName}, node)
		if !apierrors.IsNotFound(err) {
			return node, false, err
		}
	}
	return nil, true, nil
}

// bind binds a claim and a volume to each other, the volume first.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.bind
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.updateClaimStatus
func (r *claimReconciler) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) error {
	if ref := v.Spec.ClaimRef; ref == nil || ref.UID == "" {
		if ref == nil {
			metav1.SetMetaDataAnnotation(&v.ObjectMeta, boundByController, "yes")
		}
		v.Spec.ClaimRef = volume.ClaimRef(claim)
		if err := r.client.Update(ctx, v); err != nil {
			return err
		}
	}
	if claim.Spec.VolumeName == "" {
		claim.Spec.VolumeName = v.Name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, boundByController, "yes")
	}
	if claim.Annotations[bindCompleted] == "" {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, bindCompleted, "yes")
		if err := r.client.Update(ctx, claim); err != nil {
			return err
		}
	}
	before := claim.Status.DeepCopy()
	claim.Status.AccessModes = v.Spec.AccessModes
	if claim.Status.Phase != corev1.ClaimBound {
		// Later, the capacity and the class are up to the one who resizes or modifies the volume.
		claim.Status.Capacity, claim.Status.CurrentVolumeAttributesClassName = v.Spec.Capacity, v.Spec.VolumeAttributesClassName
	}
	claim.Status.Phase = corev1.ClaimBound
	if apiequality.Semantic.DeepEqual(*before, claim.Status) {
		return nil
	}
	return r.client.Status().Update(ctx, claim)
}

// unbound sets the phase of a claim without a volume. The phase is Lost if the claim was bound, and a live read
// confirms that its volume does not exist or is bound to another claim.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.updateClaimStatusWithEvent
func (r *claimReconciler) unbound(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	phase := corev1.ClaimPending
	if claim.Annotations[bindCompleted] != "" {
		phase = corev1.ClaimLost
	}
	if claim.Status.Phase == phase {
		return nil
	}
	if phase == corev1.ClaimLost {
		v := &corev1.PersistentVolume{}
		err := r.live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, v)
		if client.IgnoreNotFound(err) != nil || err == nil && bindable(v, claim) {
			return err // the cache does not have it yet; its event is the cause of another reconcile
		}
		if err == nil {
			r.recorder.Event(claim, corev1.EventTypeWarning, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
		} else {
			r.recorder.Event(claim, corev1.EventTypeWarning, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
		}
	}
	claim.Status.Phase, claim.Status.AccessModes, claim.Status.Capacity = phase, nil, nil
	claim.Status.CurrentVolumeAttributesClassName = nil
	return client.IgnoreNotFound(r.client.Status().Update(ctx, claim))
}
