package representation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestOf(t *testing.T) {
	for want, objs := range map[string][]runtime.Object{
		"typed":        {&corev1.Pod{}, &corev1.PodList{}, &metav1.Status{}},
		"unstructured": {&unstructured.Unstructured{}, &unstructured.UnstructuredList{}},
		"metadata":     {&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}},
	} {
		for _, obj := range objs {
			if got := Of(obj).String(); got != want {
				t.Errorf("%T: got %s, want %s", obj, got, want)
			}
		}
	}
}
