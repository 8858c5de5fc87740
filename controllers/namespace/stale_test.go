package namespace

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/ctrl/client"
)

// reader returns one namespace, and for lists of all kinds that they are not served.
type reader struct {
	client.Client
	namespace corev1.Namespace
}

func (r reader) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r.namespace.DeepCopyInto(obj.(*corev1.Namespace))
	return nil
}

func (r reader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "widgets"}, "", "404 page not found", 0, true)
}

// TestUnservedIsNotEmpty: a kind that was discovered and then is not served may have objects.
func TestUnservedIsNotEmpty(t *testing.T) {
	r := &reconciler{live: reader{}, discover: func(context.Context) ([]inventory.Resource, error, error) {
		return []inventory.Resource{{
			Kind:   schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
			Plural: "widgets", Namespaced: true, Verbs: []string{"list", "delete"},
		}}, nil, nil
	}}
	result, err := r.deleteAllContent(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}})
	if err == nil || len(result.contentErrs) != 1 {
		t.Errorf("result is %+v, error %v", result, err)
	}
	const want = "Failed to delete all resource types, 1 remaining: the server could not find the requested resource (get widgets)"
	if got := contentMessage(result.contentErrs); got != want {
		t.Errorf("the message is %q", got)
	}
}

// TestLiveNamespaceIsNotEmptied: the cache may still have a namespace that was deleted and created
// again.
func TestLiveNamespaceIsNotEmptied(t *testing.T) {
	active := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "2"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}}
	terminating := *active.DeepCopy()
	terminating.UID, terminating.DeletionTimestamp = "1", &metav1.Time{Time: time.Unix(1, 0)}
	for _, tt := range []struct {
		name         string
		cached, live corev1.Namespace
		want         bool
	}{{"active", active, active, false}, {"created again", terminating, active, false}, {"terminating", terminating, terminating, true}} {
		r := &reconciler{client: reader{namespace: tt.cached}, live: reader{namespace: tt.live}}
		ns, err := r.terminating(t.Context(), types.NamespacedName{Name: "n"})
		if err != nil || (ns != nil) != tt.want {
			t.Errorf("%s: got %v, %v", tt.name, ns, err)
		}
	}
}
