package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/nodestate"
)

// Mismatch returns why a volume does not satisfy a claim, or "". It does not consider the class.
//
//upstream:pkg/controller/volume/persistentvolume.checkVolumeSatisfyClaim
func Mismatch(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) string {
	reason := Unlike(claim, v)
	if reason == "" && slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(v.Spec.AccessModes, m)
	}) {
		return "incompatible accessMode"
	}
	return reason
}

// Unlike is [Mismatch] without the access modes.
func Unlike(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) string {
	switch {
	case TooSmall(v, claim):
		return "requested PV is too small"
	case ptr.Deref(claim.Spec.VolumeAttributesClassName, "") != ptr.Deref(v.Spec.VolumeAttributesClassName, ""):
		return "volumeAttributesClassName does not match"
	case !SameMode(claim, v):
		return "incompatible volumeMode"
	}
	return ""
}

// SameMode reports whether a claim and a volume have the same mode.
//
//upstream:k8s.io/component-helpers/storage/volume.CheckVolumeModeMismatches
func SameMode(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	return ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == ptr.Deref(v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
}

// Admits reports whether a node can use a volume.
//
//upstream:k8s.io/component-helpers/storage/volume.CheckNodeAffinity
func Admits(v *corev1.PersistentVolume, node *corev1.Node) bool {
	a := v.Spec.NodeAffinity
	return node == nil || a == nil || a.Required == nil || nodestate.Selected(a.Required, node)
}

// IsBoundTo reports whether a volume is bound to a claim, or reserved for it by a user.
//
//upstream:k8s.io/component-helpers/storage/volume.IsVolumeBoundToClaim
func IsBoundTo(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	r := v.Spec.ClaimRef
	return r != nil && r.Namespace == claim.Namespace && r.Name == claim.Name && (r.UID == "" || r.UID == claim.UID)
}

// TooSmall reports whether a volume has less storage than a claim requests.
func TooSmall(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	size := StorageOf(v)
	return size.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) < 0
}

// StorageOf returns the capacity of a volume.
func StorageOf(v *corev1.PersistentVolume) resource.Quantity {
	return v.Spec.Capacity[corev1.ResourceStorage]
}

// ClassOfVolume returns the name of a volume's storage class, empty for none.
//
//upstream:k8s.io/component-helpers/storage/volume.GetPersistentVolumeClass
func ClassOfVolume(v *corev1.PersistentVolume) string {
	if name, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return v.Spec.StorageClassName
}
