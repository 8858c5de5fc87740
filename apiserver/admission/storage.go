package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
)

// Finalizers of volumes, claims and VolumeAttributesClasses that may be in use.
const (
	volumeProtection = "kubernetes.io/pv-protection"
	claimProtection  = "kubernetes.io/pvc-protection"
	classProtection  = "kubernetes.io/vac-protection"
)

// storageProtection adds a finalizer to new volumes, claims and VolumeAttributesClasses. The finalizer prevents their
// deletion while they are in use; a controller removes it.
//
//upstream:plugin/pkg/admission/storage/storageobjectinuseprotection.storageProtectionPlugin
type storageProtection struct{ *admission.Handler }

var _ admission.MutationInterface = storageProtection{}

func newStorageProtection(Environment) admission.Interface {
	return storageProtection{admission.NewHandler(admission.Create)}
}

// Admit implements [admission.MutationInterface].
func (storageProtection) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	switch obj := a.GetObject().(type) {
	case *corev1.PersistentVolume:
		obj.Finalizers = withFinalizer(obj.Finalizers, volumeProtection)
	case *corev1.PersistentVolumeClaim:
		obj.Finalizers = withFinalizer(obj.Finalizers, claimProtection)
	case *storagev1.VolumeAttributesClass:
		obj.Finalizers = withFinalizer(obj.Finalizers, classProtection)
	}
	return nil
}

func withFinalizer(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// claimResize rejects the expansion of a claim that is not bound, or of a claim with a storage class that does not
// allow expansion.
//
//upstream:plugin/pkg/admission/storage/persistentvolume/resize.persistentVolumeClaimResize
type claimResize struct {
	*admission.Handler
	classes *stored.Reader[*storagev1.StorageClass]
}

var _ admission.ValidationInterface = (*claimResize)(nil)

func newClaimResize(e Environment) admission.Interface {
	return &claimResize{
		Handler: admission.NewHandler(admission.Update),
		classes: stored.NewReader[*storagev1.StorageClass](e, storagev1.SchemeGroupVersion.WithResource("storageclasses")),
	}
}

// Validate implements [admission.ValidationInterface].
func (r *claimResize) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	old, had := a.GetOldObject().(*corev1.PersistentVolumeClaim)
	if !ok || !had || a.GetSubresource() != "" {
		return nil
	}
	size, before := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(before) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		//lint:ignore ST1005 clients know this text of kube-apiserver
		return admission.NewForbidden(a, fmt.Errorf("Only bound persistent volume claims can be expanded"))
	}
	name := classOf(claim)
	if name != "" && name == classOf(old) {
		class, err := r.classes.Get(ctx, "", name)
		if err == nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion {
			return nil
		}
	}
	return admission.NewForbidden(a, fmt.Errorf("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
}

// classOf returns the name of a claim's storage class, or "".
func classOf(c *corev1.PersistentVolumeClaim) string {
	if name, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if c.Spec.StorageClassName == nil {
		return ""
	}
	return *c.Spec.StorageClassName
}
