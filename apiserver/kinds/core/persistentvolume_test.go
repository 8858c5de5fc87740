package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPersistentVolumeOrder has the errors of several sources in kube-apiserver's order.
func TestPersistentVolumeOrder(t *testing.T) {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v"},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath:   &corev1.HostPathVolumeSource{Path: "/x"},
				NFS:        &corev1.NFSVolumeSource{Server: "s", Path: "/p"},
				FlexVolume: &corev1.FlexPersistentVolumeSource{},
				CSI:        &corev1.CSIPersistentVolumeSource{Driver: "a.b", VolumeHandle: "x"},
			},
		},
	}
	want := []string{
		"spec.nfs: Forbidden: may not specify more than 1 volume type",
		"spec.flexVolume.driver: Required value",
		"spec.csi: Forbidden: may not specify more than 1 volume type",
	}
	if d := cmp.Diff(want, unsorted(validatePersistentVolume(v, nil))); d != "" {
		t.Errorf("errors (-want +got):\n%s", d)
	}
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		FlexVolume: &corev1.FlexPersistentVolumeSource{}, CSI: v.Spec.CSI,
	}
	if d := cmp.Diff(want[1:], unsorted(validatePersistentVolume(v, nil))); d != "" {
		t.Errorf("the flex volume first: errors (-want +got):\n%s", d)
	}
}
