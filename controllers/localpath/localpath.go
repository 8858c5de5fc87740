// Package localpath is a provisioner of volumes with the name of the provisioner in kind and k3s, rancher.io/local-path.
// When a pod that uses a claim has a node, it creates a volume for the claim on the node, if the StorageClass of the
// claim has this provisioner. The default StorageClass "standard" has.
//
// The volumes have paths that do not exist, since no container runs. Like any external provisioner, this one reads the
// annotations of claims that package persistentvolume sets, and deletes its volumes that are released if their reclaim policy
// is Delete.
//
// The default StorageClass exists before the control plane is ready.
//
//upstream:none The provisioner belongs to the project rancher/local-path-provisioner.
package localpath

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// Provisioner is the name of the provisioner in StorageClasses.
const Provisioner = "rancher.io/local-path"

// DefaultClass is the name of the default StorageClass.
const DefaultClass = "standard"

// root is the folder of the volumes' paths.
const root = "/var/local-path-provisioner/"

// AddToManager adds the provisioner. node is the node of volumes of classes that do not wait for a pod.
func AddToManager(mgr manager.Manager, node string) error {
	r := &reconciler{client: mgr.GetClient(), node: node,
		recorder: events.RecorderFor(mgr, Provisioner)}
	err := builder.ControllerManagedBy(mgr).
		Named("local-path-provisioner").
		For(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return needsVolume(o.(*corev1.PersistentVolumeClaim))
		}))).
		Complete(r)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		Named("local-path-deleter").
		For(&corev1.PersistentVolume{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return isReleased(o.(*corev1.PersistentVolume))
		}))).
		Complete(reconcile.Func(r.deleteVolume))
}

// isReleased reports whether a volume of the provisioner is to be deleted.
func isReleased(v *corev1.PersistentVolume) bool {
	return v.Annotations[volume.ProvisionedBy] == Provisioner && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		v.Status.Phase == corev1.VolumeReleased && v.DeletionTimestamp == nil
}

// needsVolume reports whether a volume is to be provisioned for a claim.
func needsVolume(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[volume.StorageProvisioner] == Provisioner && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// reconciler provisions volumes.
type reconciler struct {
	client   client.Client
	recorder record.EventRecorder
	node     string
}

// DefaultStorageClass returns the default StorageClass. It must exist before there are claims, which get
// it when they are created.
func DefaultStorageClass() *storagev1.StorageClass {
	policy, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: DefaultClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: Provisioner, ReclaimPolicy: &policy, VolumeBindingMode: &mode,
	}
}

// Reconcile provisions the volume of a claim.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.client.Get(ctx, req.NamespacedName, claim); err != nil || !needsVolume(claim) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	class := &storagev1.StorageClass{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: volume.ClassOf(claim)}, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // the claim is annotated again when the class exists
	}
	if reason := unsupported(claim); reason != "" {
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed",
			"failed to provision volume with StorageClass %q: %s", class.Name, reason)
		return reconcile.Result{}, nil
	}
	v := newVolume(claim, class, r.node)
	err := r.client.Create(ctx, v)
	if err == nil {
		r.recorder.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", v.Name)
	}
	if apierrors.IsAlreadyExists(err) {
		err = nil // it was provisioned before, and is not bound yet
	}
	return reconcile.Result{}, err
}

// deleteVolume deletes a released volume.
func (r *reconciler) deleteVolume(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	v := &corev1.PersistentVolume{}
	if err := r.client.Get(ctx, req.NamespacedName, v); err != nil || !isReleased(v) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// The claim, the reclaim policy or the whole volume may have been replaced since it was read.
	err := r.client.Delete(ctx, v, client.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion})
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// unsupported returns why no volume can be provisioned for a claim, or "".
func unsupported(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.Selector != nil {
		return "claim.Spec.Selector is not supported"
	}
	if slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod
	}) {
		return "NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes"
	}
	return ""
}

// newVolume returns the volume for a claim. It is on the node that was selected for the claim, or else
// on the default node.
func newVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node string) *corev1.PersistentVolume {
	if selected := claim.Annotations[volume.SelectedNode]; selected != "" {
		node = selected
	}
	name := "pvc-" + string(claim.UID)
	kind := corev1.HostPathDirectoryOrCreate
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.ProvisionedBy: Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			ClaimRef:                      volume.ClaimRef(claim),
			MountOptions:                  class.MountOptions,
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: fmt.Sprintf("%s%s_%s_%s", root, name, claim.Namespace, claim.Name), Type: &kind}},
			StorageClassName:          class.Name,
			VolumeMode:                claim.Spec.VolumeMode,
			VolumeAttributesClassName: claim.Spec.VolumeAttributesClassName,
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname,
					Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}},
		},
	}
}
