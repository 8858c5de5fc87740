package controllers_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/apiserver/store"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/inprocess"
	"flyball.dev/internal/objectdiff"
	"flyball.dev/storage/memory"
)

// lent records the objects that watches of controllers share with the server.
type lent struct {
	mu      sync.Mutex
	objects []lentObject
}

// lentObject is an object as a controller got it: shared refers to the same values, and copied is a deep copy.
type lentObject struct {
	user           string
	shared, copied client.Object
}

func (l *lent) record(user string, obj client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shared := reflect.New(reflect.TypeOf(obj).Elem()) // the controller may set the fields of its own
	shared.Elem().Set(reflect.ValueOf(obj).Elem())
	l.objects = append(l.objects, lentObject{user, shared.Interface().(client.Object), obj.DeepCopyObject().(client.Object)})
}

// changes describes the objects that are not as they were, and returns the number of objects of each kind.
func (l *lent) changes() (changed []string, kinds map[reflect.Type]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kinds = map[reflect.Type]int{}
	for _, o := range l.objects {
		kinds[reflect.TypeOf(o.shared)]++
		if !reflect.DeepEqual(o.shared, o.copied) {
			changed = append(changed, fmt.Sprintf("%T %s of %s: %s", o.shared, client.ObjectKeyFromObject(o.copied), o.user, objectdiff.Fields(o.copied, o.shared)))
		}
	}
	return changed, kinds
}

// wrap is the WrapTransport of a control plane.
func (l *lent) wrap(user string, transport http.RoundTripper) http.RoundTripper {
	return &lending{transport.(sharing), user, l}
}

// sharing is a transport that shares objects.
type sharing interface {
	http.RoundTripper
	inprocess.Transport
	inprocess.Sharer
}

// lending is a transport that records the objects of watches.
type lending struct {
	sharing
	user string
	lent *lent
}

func (t *lending) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.sharing.RoundTrip(r)
	if err == nil {
		if events, ok := resp.Body.(inprocess.EventReader); ok {
			resp.Body = &lendingBody{resp.Body, events, t}
		}
	}
	return resp, err
}

type lendingBody struct {
	io.ReadCloser
	events inprocess.EventReader
	*lending
}

func (b *lendingBody) ReadEvents() ([]watch.Event, error) {
	events, err := b.events.ReadEvents()
	for _, e := range events {
		if obj, ok := e.Object.(client.Object); ok {
			b.lent.record(b.user, obj)
		}
	}
	return events, err
}

// TestSharedObjectsStay: no controller changes an object that it shares with the API server.
func TestSharedObjectsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lent{}
		controllerstest.WithPlane(t, controlplane.Options{WrapTransport: l.wrap}, func(e controllerstest.Env) {
			objects := restingObjects()
			e.CreateAll(objects...)
			time.Sleep(time.Minute) // of virtual time
			for _, patch := range []struct {
				obj  client.Object
				data string
			}{
				{objects[1], `{"spec":{"replicas":30,"template":{"metadata":{"annotations":{"rollout":"1"}}}}}`},
				{objects[3], `{"spec":{"replicas":3,"template":{"metadata":{"annotations":{"rollout":"1"}}}}}`},
				{&corev1.Node{}, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`},
				{&corev1.Node{}, `{"metadata":{"labels":{"a":"b"}},"spec":{"taints":null}}`},
			} {
				if node, ok := patch.obj.(*corev1.Node); ok {
					var nodes corev1.NodeList
					e.Must(e.List(e.Context(), &nodes))
					*node = nodes.Items[0]
				}
				e.Must(e.Patch(e.Context(), patch.obj, client.RawPatch("application/merge-patch+json", []byte(patch.data))))
				time.Sleep(time.Minute)
			}
			for _, obj := range objects {
				e.Must(e.Delete(e.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationForeground)))
			}
			time.Sleep(10 * time.Minute)
			changed, kinds := l.changes()
			for _, c := range changed {
				t.Error(c)
			}
			for _, obj := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &appsv1.ReplicaSet{}, &appsv1.Deployment{}} {
				if kinds[reflect.TypeOf(obj)] == 0 {
					t.Errorf("no controller shared a %T", obj)
				}
			}
		})
	})
}

// TestChangeOfSharedObject: TestSharedObjectsStay would see a change.
func TestChangeOfSharedObject(t *testing.T) {
	l := &lent{}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}}}
	l.record("test", pod)
	pod.Labels, pod.Spec.NodeName = map[string]string{}, "its own"
	if changed, _ := l.changes(); len(changed) > 0 {
		t.Errorf("%q: the fields are not shared", changed)
	}
	l.objects[0].shared.GetLabels()["app"] = "changed"
	if changed, _ := l.changes(); len(changed) != 1 {
		t.Errorf("the change is not seen: %q", changed)
	}
}

// TestObjectsOfUsers: a user that changes the objects of a cache, by mistake, does not change what the server and the controllers have.
func TestObjectsOfUsers(t *testing.T) {
	l, backend := &lent{}, memory.New(memory.Options{})
	controllerstest.WithControlPlane(t, controlplane.Options{Storage: backend, WrapTransport: l.wrap}, func(e controllerstest.Env) {
		ctx, cancel := context.WithCancel(e.Context())
		users, err := cache.New(e.Plane.Config(), cache.Options{})
		e.Must(err)
		informer, err := users.GetInformer(ctx, &corev1.Pod{})
		e.Must(err)
		var handled []*corev1.Pod // the handler could change them too, but that would be a data race
		add := func(obj any) { handled = append(handled, obj.(*corev1.Pod)) }
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }})
		e.Must(err)
		done := make(chan error, 1)
		go func() { done <- users.Start(ctx) }()
		e.CreateAll(controllerstest.Deployment(3, "a"))
		time.Sleep(time.Minute) // of virtual time
		var pods corev1.PodList
		e.Must(users.List(ctx, &pods, client.UnsafeDisableDeepCopy))
		synctest.Wait()
		for i := range pods.Items {
			handled = append(handled, &pods.Items[i])
		}
		for _, pod := range handled {
			pod.Spec.Containers[0].Image = "changed"
		}
		if len(pods.Items) != 3 || len(handled) < 6 {
			t.Errorf("the user has %d pods", len(pods.Items))
		}
		if err := store.Verify(ctx, backend); err != nil { // a list would not tell: it is made from the stored bytes
			t.Errorf("the server has a change: %v", err)
		}
		if changed, _ := l.changes(); len(changed) > 0 {
			t.Errorf("the controllers have a change: %q", changed)
		}
		cancel()
		e.Must(<-done)
	})
}
