package cache

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/objectdiff"
	"flyball.dev/ctrl/internal/representation"
)

// Mutation tells that an object was changed which a cache had handed out to be
// shared. See Options.OnMutation.
type Mutation struct {
	GVK schema.GroupVersionKind
	Key client.ObjectKey
	// Fields names the fields that were changed, such as metadata.labels.app.
	// Their values are not told.
	Fields string
	// SharedWith is who got the object: a handler, or a reader.
	SharedWith string
	// Detected is when the change was noticed. It cannot have happened before the
	// object was looked at last.
	Detected string
}

// Error describes the mutation, so that it can be used as an error.
func (m Mutation) Error() string {
	return fmt.Sprintf("%s %s is shared and must not be changed, but was: %s. It was given to %s; the change was noticed %s",
		m.GVK.GroupKind(), m.Key, m.Fields, m.SharedWith, m.Detected)
}

// PanicOnMutation is an Options.OnMutation that panics, in a handler's goroutine
// or in that of a reader.
func PanicOnMutation(m Mutation) { panic(m.Error()) }

// mutationVariable is the environment variable that switches detection on where
// Options do not say anything. client-go's informers look at it too.
const mutationVariable = "KUBE_CACHE_MUTATION_DETECTOR"

func applyMutationVariable(opts *Options) {
	if on, _ := strconv.ParseBool(os.Getenv(mutationVariable)); on && opts.OnMutation == nil {
		opts.OnMutation = PanicOnMutation
	}
}

// mutationDetector remembers what an informer has handed out, and as what.
type mutationDetector struct {
	gvk    schema.GroupVersionKind
	report func(Mutation)

	mu    sync.Mutex
	byKey map[client.ObjectKey][]*sharedObject
}

type sharedObject struct {
	// obj is what was handed out, was a copy of it as it was then.
	obj, copied client.Object
	sharedWith       string
}

// maxSharedObjects is how many loans of an object are remembered. The oldest are
// forgotten.
const maxSharedObjects = 8

func newMutationDetector(gvk schema.GroupVersionKind, report func(Mutation)) *mutationDetector {
	return &mutationDetector{gvk: gvk, report: report, byKey: map[client.ObjectKey][]*sharedObject{}}
}

// addObject remembers an object that is about to be handed out.
func (l *mutationDetector) addObject(obj client.Object, to string) {
	key := client.ObjectKeyFromObject(obj)
	l.compareObject(key, "before "+to+" got it again")
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.byKey[key]
	for _, other := range all {
		if other.obj == obj {
			return
		}
	}
	all = append(all, &sharedObject{obj, obj.DeepCopyObject().(client.Object), to})
	l.byKey[key] = all[max(0, len(all)-maxSharedObjects):]
}

// compareObject compares what was handed out under a key with what it was. What was
// changed is reported and forgotten.
func (l *mutationDetector) compareObject(key client.ObjectKey, when string) {
	for _, m := range l.takeMutations(key, when) {
		l.report(m)
	}
}

func (l *mutationDetector) takeMutations(key client.ObjectKey, when string) (found []Mutation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byKey[key] = slices.DeleteFunc(l.byKey[key], func(loan *sharedObject) bool {
		if reflect.DeepEqual(loan.obj, loan.copied) {
			return false
		}
		m := Mutation{l.gvk, key, changedFields(loan.copied, loan.obj), loan.sharedWith, when}
		if m.Fields == "" {
			return false // no more than an empty list in place of none
		}
		if !slices.Contains(found, m) {
			found = append(found, m)
		}
		return true
	})
	return found
}

// compareObjects compares everything that was handed out.
func (l *mutationDetector) compareObjects(when string) {
	l.mu.Lock()
	keys := make([]client.ObjectKey, 0, len(l.byKey))
	for key := range l.byKey {
		keys = append(keys, key)
	}
	l.mu.Unlock()
	for _, key := range keys {
		l.compareObject(key, when)
	}
}

// changedFields names the fields in which an object differs from what it was.
func changedFields(was, is client.Object) string {
	var fields []string
	if diff := objectdiff.Fields(withoutManagedFields(was), withoutManagedFields(is)); diff != "" {
		fields = append(fields, diff)
	}
	// Diff leaves these out.
	if was.GetResourceVersion() != is.GetResourceVersion() {
		fields = append(fields, "metadata.resourceVersion")
	}
	if !reflect.DeepEqual(was.GetManagedFields(), is.GetManagedFields()) {
		fields = append(fields, "metadata.managedFields")
	}
	return strings.Join(fields, ", ")
}

// withoutManagedFields returns the content of an object without its managed fields, which
// say who changed it on the server.
func withoutManagedFields(obj client.Object) *unstructured.Unstructured {
	content := maps.Clone(contentOf(obj))
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		content["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: content}
}

// contentOf returns what the object would be as JSON, empty if it has no such
// form.
func contentOf(obj client.Object) map[string]any {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.UnstructuredContent()
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return map[string]any{}
	}
	return content
}

// wrapHandler returns a handler that passes on to another one and looks at what that
// one leaves behind.
func (l *mutationDetector) wrapHandler(handler toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	name := fmt.Sprintf("the handler %T", handler)
	around := func(call func(), objs ...any) {
		var keys []client.ObjectKey
		for _, obj := range objs {
			if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if o, ok := obj.(client.Object); ok {
				keys = append(keys, client.ObjectKeyFromObject(o))
				l.addObject(o, name)
			}
		}
		call()
		for _, key := range keys {
			l.compareObject(key, "when "+name+" had returned")
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { around(func() { handler.OnAdd(obj, initial) }, obj) },
		UpdateFunc: func(before, after any) { around(func() { handler.OnUpdate(before, after) }, before, after) },
		DeleteFunc: func(obj any) { around(func() { handler.OnDelete(obj) }, obj) },
	}
}

// detectingCache is a cache that looks at what readers leave behind.
type detectingCache struct{ *informerCache }

const unsafeReader = "a reader without a deep copy"

// Get implements client.Reader.
func (c detectingCache) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	if err := c.informerCache.Get(ctx, key, out, opts...); err != nil {
		return err
	}
	i := c.informerFor(out, "")
	if i == nil {
		return nil
	}
	i.mutations.compareObject(client.ObjectKeyFromObject(out), "when it was read again")
	if i.partitionFor(out.GetNamespace()).shares((&client.GetOptions{}).ApplyOptions(opts).UnsafeDisableDeepCopy) {
		i.mutations.addObject(shallowCopy(out), unsafeReader)
	}
	return nil
}

// List implements client.Reader.
func (c detectingCache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	if err := c.informerCache.List(ctx, out, opts...); err != nil {
		return err
	}
	i := c.informerFor(out, "List")
	unsafe := (&client.ListOptions{}).ApplyOptions(opts).UnsafeDisableDeepCopy
	items, err := meta.GetItemsPtr(out)
	if err != nil || i == nil {
		return err
	}
	slice := reflect.ValueOf(items).Elem()
	for n := range slice.Len() {
		item, lent := slice.Index(n), func(obj client.Object) client.Object { return obj }
		if item.Kind() == reflect.Struct {
			item, lent = item.Addr(), shallowCopy
		}
		obj, ok := item.Interface().(client.Object)
		if !ok {
			continue
		}
		i.mutations.compareObject(client.ObjectKeyFromObject(obj), "when it was listed again")
		if i.partitionFor(obj.GetNamespace()).shares(unsafe) {
			i.mutations.addObject(lent(obj), unsafeReader)
		}
	}
	return nil
}

// informerFor returns the informer that an object or a list was just read from, or nil if
// it was removed since.
func (c detectingCache) informerFor(out runtime.Object, suffix string) *informer {
	gvk, _ := apiutil.GVKForObject(out, c.opts.Scheme)
	gvk.Kind = strings.TrimSuffix(gvk.Kind, suffix)
	i, _ := c.existingInformer(informerKey{gvk, representation.Of(out)})
	return i
}

// shallowCopy returns a copy of an object's struct: what the struct itself holds is
// the reader's own, but not what it refers to.
func shallowCopy(obj client.Object) client.Object {
	v := reflect.ValueOf(obj).Elem()
	held := reflect.New(v.Type())
	held.Elem().Set(v)
	return held.Interface().(client.Object)
}
