package plans

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"flyball.dev/ctrl/client"
)

func init() {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // they wait
}

// theirs is one of Kubernetes's controllers on a world, with informers that show it what the test wants it to see.
type theirs struct {
	informers.SharedInformerFactory
	client  fake.Clientset
	world   *world
	byType  map[reflect.Type]*informer
	every   bool
	retries int
	taken   atomic.Bool // the name of an object that the controller has created
}

// runFunc returns a function that runs a controller until the context ends.
type runFunc func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error)

// newTheirs returns the controller that a function makes and runs until the test ends. The controller reads the kinds
// of the objects.
func newTheirs(t *testing.T, kinds []client.Object, run runFunc) *theirs {
	t.Helper()
	k := &theirs{byType: map[reflect.Type]*informer{}}
	k.client.AddReactor("*", "*", k.react)
	k.SharedInformerFactory = informers.NewSharedInformerFactory(&k.client, 0)
	for _, kind := range kinds {
		i := &informer{SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, kind, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
		k.byType[reflect.TypeOf(kind)] = i
		k.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return i })
	}
	ctx, cancel := context.WithCancel(context.Background())
	start, err := run(ctx, &k.client, k)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return k
}

// lastRetry is the time after which a controller does not retry any more a write that had a conflict. A world ends within a
// second, so that the times in its objects do not depend on the retries.
const lastRetry = 70 * time.Millisecond

// run shows the controller a world, and what changes in it, until nothing does. Of the objects that are there at the
// beginning, only the object, or its deletion, and what has no namespace is an event, so that the controller reconciles no other object.
func (k *theirs) run(t *testing.T, w *world, object client.Object) {
	k.world = w
	show := k.changes(w, object.GetNamespace())
	for _, i := range k.byType {
		if err := i.GetIndexer().Replace(nil, strconv.Itoa(w.version)); err != nil {
			t.Fatal(err)
		}
	}
	var others []client.Object
	for name, o := range w.objects {
		i := k.byType[reflect.TypeOf(o)]
		if i == nil {
			continue
		}
		if err := i.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
		if name.Namespace == "" {
			others = append(others, o)
		}
	}
	slices.SortFunc(others, func(a, b client.Object) int { return compareKeys(keyOf(a), keyOf(b)) })
	for _, o := range others {
		k.byType[reflect.TypeOf(o)].added(o)
	}
	show()
	if main, err := w.get(keyOf(object)); err == nil {
		k.byType[reflect.TypeOf(main)].added(main)
	} else {
		k.byType[reflect.TypeOf(object)].deleted(object)
	}
	retries := k.retries
	for left, since := rounds, time.Now(); left > 0; time.Sleep(time.Millisecond) {
		synctest.Wait()
		if changed := w.takeChanged(); len(changed) > 0 {
			k.show(t, w, changed, object)
			left, since = left-1, time.Now()
		} else if k.taken.Swap(false) && retries > 0 {
			retries--
			k.show(t, w, nil, object)
		} else if time.Since(since) > lastRetry {
			return
		}
	}
	t.Errorf("Kubernetes's controller does not end: %q", w.writes)
}

// changes returns a function that shows the controller the changes of a world since it saw the world, if it is to see every
// object. Deletions come first.
func (k *theirs) changes(w *world, namespace string) func() {
	var deleted, others []func()
	for _, i := range k.byType {
		old, _ := i.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
		for _, o := range old {
			if _, err := w.get(keyOf(o.(client.Object))); err != nil {
				deleted = append(deleted, func() { i.deleted(o) })
			}
		}
	}
	for name, o := range w.objects {
		if i := k.byKey(name); i == nil || name.Namespace == "" {
			continue
		} else if old, had, _ := i.GetIndexer().GetByKey(name.NamespacedName.String()); had {
			others = append(others, func() { i.updated(old, o) })
		} else {
			others = append(others, func() { i.added(o) })
		}
	}
	return func() {
		for _, event := range append(deleted, others...) {
			if k.every {
				event()
			}
		}
	}
}

// show shows the controller what has changed, and then its object again.
func (k *theirs) show(t *testing.T, w *world, changed []key, object client.Object) {
	var events []func()
	for _, name := range changed {
		kind, err := w.get(name)
		i := k.byKey(name)
		if i == nil {
			continue
		}
		old, had, _ := i.GetIndexer().GetByKey(name.NamespacedName.String())
		switch {
		case err != nil && had:
			_ = i.GetIndexer().Delete(old)
			last := w.last[name]
			events = append(events, func() { i.updated(old, last) }, func() { i.deleted(last) })
		case err != nil:
		case had:
			_ = i.GetIndexer().Update(kind)
			events = append(events, func() { i.updated(old, kind) })
		default:
			_ = i.GetIndexer().Add(kind)
			events = append(events, func() { i.added(kind) })
		}
	}
	for _, i := range k.byType {
		i.GetIndexer().Bookmark(strconv.Itoa(w.version))
	}
	for _, event := range events {
		event()
	}
	if main, err := w.get(keyOf(object)); err == nil {
		k.byType[reflect.TypeOf(main)].added(main)
	}
}

// byKey returns the informer of an object's kind, or nil.
func (k *theirs) byKey(name key) *informer {
	for t, i := range k.byType {
		if resourceOf(reflect.New(t.Elem()).Interface().(client.Object)) == name.GroupResource {
			return i
		}
	}
	return nil
}

// react executes a request of the controller.
func (k *theirs) react(action clienttesting.Action) (bool, runtime.Object, error) {
	handled, o, err := k.execute(action)
	if apierrors.IsAlreadyExists(err) {
		k.taken.Store(true)
	}
	return handled, o, err
}

func (k *theirs) execute(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetResource().Resource == "events" {
		if create, ok := action.(clienttesting.CreateAction); ok {
			e := create.GetObject().(*corev1.Event)
			k.world.record(e.Type, e.Reason, e.Message)
			return true, e, nil
		}
		return true, &corev1.Event{}, nil
	}
	name := key{action.GetResource().GroupResource(), types.NamespacedName{Namespace: action.GetNamespace()}}
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		o := a.GetObject().DeepCopyObject().(client.Object)
		o.SetNamespace(a.Namespace)
		o, err := k.world.create(o)
		return true, orNil(o), err
	case clienttesting.UpdateActionImpl:
		o, err := k.world.update(a.GetObject().(client.Object), a.Subresource)
		return true, orNil(o), err
	case clienttesting.PatchActionImpl:
		name.Name = a.Name
		o, err := k.world.patch(name, a.PatchType, a.Patch, a.Subresource)
		return true, orNil(o), err
	case clienttesting.DeleteActionImpl:
		name.Name = a.Name
		return true, nil, k.world.delete(name, a.DeleteOptions.Preconditions)
	case clienttesting.GetActionImpl:
		name.Name = a.Name
		o, err := k.world.get(name)
		if err != nil {
			return true, nil, err
		}
		return true, o.DeepCopyObject(), nil
	case clienttesting.ListActionImpl:
		list, err := scheme.Scheme.New(a.Kind.GroupVersion().WithKind(a.Kind.Kind + "List"))
		if err != nil {
			return true, nil, err
		}
		var items []runtime.Object
		for _, o := range k.world.list(name.GroupResource) {
			items = append(items, o.DeepCopyObject())
		}
		return true, list, meta.SetList(list, items)
	}
	return true, nil, fmt.Errorf("a request that no test expects: %v", action)
}

// orNil returns nil for a nil object.
func orNil(o client.Object) runtime.Object {
	if o == nil {
		return nil
	}
	return o
}

// informer is an informer that a test fills.
type informer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (i *informer) HasSynced() bool { return true }

func (i *informer) GetController() cache.Controller { return controller{} }

// controller is the controller of an informer that a test fills.
type controller struct{ cache.Controller }

func (controller) HasSynced() bool     { return true }
func (controller) Run(<-chan struct{}) {}

func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return registration{}, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (i *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (i *informer) added(o any) {
	for _, h := range i.handlers {
		h.OnAdd(o, false)
	}
}

func (i *informer) updated(old, o any) {
	for _, h := range i.handlers {
		h.OnUpdate(old, o)
	}
}

func (i *informer) deleted(o any) {
	for _, h := range i.handlers {
		h.OnDelete(o)
	}
}

// registration is the registration of a handler that has seen everything.
type registration struct {
	cache.ResourceEventHandlerRegistration
}

func (registration) HasSynced() bool { return true }
