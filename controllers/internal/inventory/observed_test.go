package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// TestSharedKinds checks the Go types of shared kinds, and that kinds outside the scheme are not shared.
func TestSharedKinds(t *testing.T) {
	for kind, obj := range shared {
		kinds, _, err := clientgoscheme.Scheme.ObjectKinds(obj)
		if err != nil || len(kinds) != 1 || kinds[0] != kind {
			t.Errorf("the object for %s is of %v (%v)", kind, kinds, err)
		}
		if _, isShared := observedObject(kind, clientgoscheme.Scheme); !isShared {
			t.Errorf("%s is not shared", kind)
		}
		if o, isShared := observedObject(kind, runtime.NewScheme()); isShared || o.GetObjectKind().GroupVersionKind() != kind {
			t.Errorf("%s is shared without being in the scheme: %v", kind, o)
		}
	}
}

// TestMetadataOf: the metadata of an object is the same, whether all of the object is observed or
// not.
func TestMetadataOf(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "c", ResourceVersion: "1", Labels: map[string]string{"d": "e"},
		Finalizers: []string{"example.com/f"}, OwnerReferences: []metav1.OwnerReference{{UID: "g"}}, DeletionTimestamp: &metav1.Time{}}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	want := &metav1.PartialObjectMetadata{ObjectMeta: meta}
	want.SetGroupVersionKind(kind)
	for _, obj := range []any{want, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "h"}}} {
		got, ok := metadataOf(kind, obj)
		if d := cmp.Diff(want, got); !ok || d != "" {
			t.Errorf("of %T: %v (-want +got)\n%s", obj, ok, d)
		}
	}
	for _, obj := range []any{nil, "x", schema.GroupVersionKind{}} {
		if m, ok := metadataOf(kind, obj); ok {
			t.Errorf("of %T: %v", obj, m)
		}
	}
}
