package persistentvolume

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/nodestate"
	"flyball.dev/controllers/internal/volume"
)

// match returns the volume for a claim, or nil. A volume that is reserved for the claim comes first, whatever its
// class. Otherwise match selects among the available volumes that fit, by the fewest access modes and then by size.
// If node is not nil, the node must be able to use the volume, and only the size counts, as in the scheduler.
//
//upstream:k8s.io/component-helpers/storage/volume.FindMatchingVolume
//upstream:pkg/controller/volume/persistentvolume.persistentVolumeOrderedIndex.findByClaim
func match(claim *corev1.PersistentVolumeClaim, volumes []corev1.PersistentVolume, node *corev1.Node) *corev1.PersistentVolume {
	selector := labels.Everything()
	if claim.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(claim.Spec.Selector); err != nil {
			return nil
		}
	}
	var best *corev1.PersistentVolume
	for i := range volumes {
		v := &volumes[i]
		if v.DeletionTimestamp != nil || mismatch(claim, v) != "" || !matchesNodeAffinity(v, node) {
			continue
		}
		if isBoundTo(v, claim) {
			return v
		}
		if v.Spec.ClaimRef != nil || v.Status.Phase != corev1.VolumeAvailable || volume.ClassOf(claim) != classOfVolume(v) ||
			!selector.Matches(labels.Set(v.Labels)) {
			continue
		}
		if best == nil || compareVolumes(v, best, node == nil) < 0 {
			best = v
		}
	}
	return best
}

// compareVolumes orders volumes by size. If byModes is set, the number of access modes comes first.
//
//upstream:pkg/controller/volume/persistentvolume.byAccessModes
func compareVolumes(a, b *corev1.PersistentVolume, byModes bool) int {
	modes := 0
	if byModes {
		modes = cmp.Compare(len(a.Spec.AccessModes), len(b.Spec.AccessModes))
	}
	size := storageOf(a)
	return cmp.Or(modes, size.Cmp(storageOf(b)))
}

// mismatch returns why a volume does not satisfy a claim, or "". It does not consider the class.
//
//upstream:pkg/controller/volume/persistentvolume.checkVolumeSatisfyClaim
func mismatch(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) string {
	size := storageOf(v)
	switch {
	case size.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) < 0:
		return "requested PV is too small"
	case ptr.Deref(claim.Spec.VolumeAttributesClassName, "") != ptr.Deref(v.Spec.VolumeAttributesClassName, ""):
		return "volumeAttributesClassName does not match"
	case ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) != ptr.Deref(v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem):
		return "incompatible volumeMode"
	case slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(v.Spec.AccessModes, m)
	}):
		return "incompatible accessMode"
	}
	return ""
}

// matchesNodeAffinity reports whether a node can use a volume.
//
//upstream:k8s.io/component-helpers/storage/volume.CheckNodeAffinity
func matchesNodeAffinity(v *corev1.PersistentVolume, node *corev1.Node) bool {
	a := v.Spec.NodeAffinity
	return node == nil || a == nil || a.Required == nil || nodestate.Selected(a.Required, node)
}

// isBoundTo reports whether a volume is bound to a claim, or reserved for it by a user.
//
//upstream:k8s.io/component-helpers/storage/volume.IsVolumeBoundToClaim
func isBoundTo(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	r := v.Spec.ClaimRef
	return r != nil && r.Namespace == claim.Namespace && r.Name == claim.Name && (r.UID == "" || r.UID == claim.UID)
}

// bindable reports whether a claim that names a volume can be bound to it.
func bindable(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return isBoundTo(v, claim) || v.Spec.ClaimRef == nil && refusal(v, claim) == ""
}

// refusal returns why a claim cannot be bound to a volume that it names, or "". The volume is for no claim.
//
//upstream:pkg/controller/volume/persistentvolume.checkVolumeSatisfyClaim
func refusal(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) string {
	switch {
	case v.DeletionTimestamp != nil:
		return "the volume is marked for deletion"
	case volume.ClassOf(claim) != classOfVolume(v):
		return "storageClassName does not match"
	}
	return mismatch(claim, v)
}

func storageOf(v *corev1.PersistentVolume) resource.Quantity {
	return v.Spec.Capacity[corev1.ResourceStorage]
}

// defaultClass returns the name of the default StorageClass, or "". If several are annotated as default, the newest
// one is.
//
//upstream:pkg/volume/util.GetDefaultClass
func defaultClass(classes []storagev1.StorageClass) string {
	var best *storagev1.StorageClass
	for i := range classes {
		c := &classes[i]
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" &&
			c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] != "true" {
			continue
		}
		if best == nil || cmp.Or(best.CreationTimestamp.Compare(c.CreationTimestamp.Time), strings.Compare(c.Name, best.Name)) < 0 {
			best = c
		}
	}
	if best == nil {
		return ""
	}
	return best.Name
}

// classOfVolume returns the name of a volume's storage class, empty for none.
//
//upstream:k8s.io/component-helpers/storage/volume.GetPersistentVolumeClass
func classOfVolume(v *corev1.PersistentVolume) string {
	if name, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return v.Spec.StorageClassName
}
