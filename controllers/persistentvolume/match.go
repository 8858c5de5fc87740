package persistentvolume

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"flyball.dev/controllers/internal/volume"
)

// match returns the volume for a claim, or nil. It selects among the volumes with the fewest access modes that fit. A volume
// that is reserved for the claim comes first, whatever its class, and then the smallest one that is available. With wait, only
// reserved volumes match. If node is not nil, match selects as the scheduler does: the node must be able to use the volume,
// and the number of access modes and wait have no meaning.
//
//upstream:k8s.io/component-helpers/storage/volume.FindMatchingVolume
//upstream:pkg/controller/volume/persistentvolume.persistentVolumeOrderedIndex.findByClaim
func match(claim *corev1.PersistentVolumeClaim, volumes []corev1.PersistentVolume, node *corev1.Node, wait bool) *corev1.PersistentVolume {
	selector := labels.Everything()
	if claim.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(claim.Spec.Selector); err != nil {
			return nil
		}
	}
	reserved := func(v *corev1.PersistentVolume) bool { return volume.IsBoundTo(v, claim) }
	available := func(v *corev1.PersistentVolume) bool {
		return (node != nil || !wait) && v.Spec.ClaimRef == nil && v.Status.Phase == corev1.VolumeAvailable &&
			volume.ClassOf(claim) == volume.ClassOfVolume(v) && selector.Matches(labels.Set(v.Labels))
	}
	var best *corev1.PersistentVolume
	for i := range volumes {
		v := &volumes[i]
		if v.DeletionTimestamp != nil || volume.Mismatch(claim, v) != "" || !volume.Admits(v, node) || !reserved(v) && !available(v) {
			continue
		}
		if best == nil || compareVolumes(v, best, node == nil, reserved) < 0 {
			best = v
		}
	}
	return best
}

// compareVolumes orders volumes: reserved ones come first, and then the smaller ones. If byModes is set, the number of access
// modes comes before both.
//
//upstream:pkg/controller/volume/persistentvolume.byAccessModes
func compareVolumes(a, b *corev1.PersistentVolume, byModes bool, reserved func(*corev1.PersistentVolume) bool) int {
	modes, first := 0, 0
	if byModes {
		modes = cmp.Compare(countModes(a), countModes(b))
	}
	switch {
	case reserved(a) && !reserved(b):
		first = -1
	case reserved(b) && !reserved(a):
		first = 1
	}
	size := volume.StorageOf(a)
	return cmp.Or(modes, first, size.Cmp(volume.StorageOf(b)))
}

// countModes returns the number of access modes of a volume, without repetitions.
func countModes(v *corev1.PersistentVolume) int { return sets.New(v.Spec.AccessModes...).Len() }

// refusal returns why a claim cannot be bound to a volume that it names, or "". The volume is for no claim.
//
//upstream:pkg/controller/volume/persistentvolume.checkVolumeSatisfyClaim
func refusal(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) string {
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Sprintf("the volume is marked for deletion %q", v.Name)
	case volume.TooSmall(v, claim):
		return volume.Mismatch(claim, v)
	case volume.ClassOf(claim) != volume.ClassOfVolume(v):
		return "storageClassName does not match"
	}
	return volume.Mismatch(claim, v)
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
