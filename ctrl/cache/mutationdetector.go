package cache

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
	"flyball.dev/internal/objectdiff"
)

// Mutation describes the modification of an object that a cache shares with its readers and
// handlers, and which therefore must not be modified. See Options.OnMutation.
type Mutation struct {
	GVK schema.GroupVersionKind
	Key client.ObjectKey
	// Fields names the modified fields, such as metadata.labels.app, without their values.
	Fields string
	// SharedWith is the handler or reader that the object was passed to.
	SharedWith string
	// Detected describes when the modification was detected. It happened after the previous comparison
	// of the object.
	Detected string
}

// Error implements error.
func (m Mutation) Error() string {
	return fmt.Sprintf("%s %s is shared and must not be modified, but was: %s. "+
		"It was passed to %s; the modification was detected %s",
		m.GVK.GroupKind(), m.Key, m.Fields, m.SharedWith, m.Detected)
}

// PanicOnMutation is an Options.OnMutation that panics, on the goroutine of a handler or a reader.
func PanicOnMutation(m Mutation) { panic(m.Error()) }

// mutationVariable is the environment variable that enables the mutation detector if
// Options.OnMutation is nil. Client-go's informers do the same.
const mutationVariable = "KUBE_CACHE_MUTATION_DETECTOR"

// applyMutationVariable sets OnMutation by the environment variable.
func applyMutationVariable(opts *Options) {
	if on, _ := strconv.ParseBool(os.Getenv(mutationVariable)); on && opts.OnMutation == nil {
		opts.OnMutation = PanicOnMutation
	}
}

// mutationDetector keeps copies of the objects that an informer shares, and compares them with the
// shared objects, as client-go's cache mutation detector does.
type mutationDetector struct {
	gvk    schema.GroupVersionKind
	report func(Mutation)

	mu    sync.Mutex
	byKey map[client.ObjectKey][]*sharedObject
	// pending are mutations that are not reported yet.
	pending []Mutation
}

// sharedObject is an object that was passed to a reader or handler.
type sharedObject struct {
	// obj is the shared object, copied a deep copy of it as it was then.
	obj, copied client.Object
	sharedWith  string
}

// maxSharedObjects is the maximum number of shared objects that are kept for one key. The oldest
// are dropped.
const maxSharedObjects = 8

func newMutationDetector(gvk schema.GroupVersionKind, report func(Mutation)) *mutationDetector {
	return &mutationDetector{gvk: gvk, report: report, byKey: map[client.ObjectKey][]*sharedObject{}}
}

// addObject adds an object that is about to be passed to a reader or handler.
func (d *mutationDetector) addObject(obj client.Object, sharedWith string) {
	key := client.ObjectKeyFromObject(obj)
	d.compareObject(key, "before it was passed to "+sharedWith+" again")
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.byKey[key]
	for _, other := range all {
		if other.obj == obj {
			return
		}
	}
	all = append(all, &sharedObject{obj, obj.DeepCopyObject().(client.Object), sharedWith})
	d.byKey[key] = all[max(0, len(all)-maxSharedObjects):]
}

// compareObject compares the shared objects of a key with their copies. Modified ones are reported
// and dropped.
func (d *mutationDetector) compareObject(key client.ObjectKey, when string) {
	d.mu.Lock()
	found := append(d.pending, d.takeMutations(key, when)...)
	d.pending = nil
	d.mu.Unlock()
	for _, m := range found {
		d.report(m)
	}
}

// forget compares the shared objects of a key once more, as an object was deleted, and drops those with
// its UID. Mutations are reported with the next comparison, on the goroutine of a handler or a reader.
func (d *mutationDetector) forget(key client.ObjectKey, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, d.takeMutations(key, "when it was deleted")...)
	d.drop(key, func(shared *sharedObject) bool { return shared.copied.GetUID() == uid })
}

// takeMutations returns the mutations of the objects of a key and drops those objects. The caller holds
// mu.
func (d *mutationDetector) takeMutations(key client.ObjectKey, when string) (found []Mutation) {
	d.drop(key, func(shared *sharedObject) bool {
		if reflect.DeepEqual(shared.obj, shared.copied) {
			return false
		}
		m := Mutation{d.gvk, key, changedFields(shared.copied, shared.obj), shared.sharedWith, when}
		if m.Fields == "" {
			return false // such as an empty list instead of none
		}
		if !slices.Contains(found, m) {
			found = append(found, m)
		}
		return true
	})
	return found
}

// drop drops shared objects of a key. The caller holds mu.
func (d *mutationDetector) drop(key client.ObjectKey, which func(*sharedObject) bool) {
	all, ok := d.byKey[key]
	if !ok {
		return
	}
	if all = slices.DeleteFunc(all, which); len(all) > 0 {
		d.byKey[key] = all
	} else {
		delete(d.byKey, key)
	}
}

// compareObjects compares all shared objects.
func (d *mutationDetector) compareObjects(when string) {
	d.mu.Lock()
	found := d.pending
	d.pending = nil
	for key := range d.byKey {
		found = append(found, d.takeMutations(key, when)...)
	}
	d.mu.Unlock()
	for _, m := range found {
		d.report(m)
	}
}

// changedFields names the fields in which two states of an object differ.
func changedFields(before, after client.Object) string {
	var fields []string
	if diff := objectdiff.Fields(withoutManagedFields(before), withoutManagedFields(after)); diff != "" {
		fields = append(fields, diff)
	}
	// objectdiff ignores these.
	if before.GetResourceVersion() != after.GetResourceVersion() {
		fields = append(fields, "metadata.resourceVersion")
	}
	if !reflect.DeepEqual(before.GetManagedFields(), after.GetManagedFields()) {
		fields = append(fields, "metadata.managedFields")
	}
	return strings.Join(fields, ", ")
}

// withoutManagedFields returns the content of an object without its managed fields.
func withoutManagedFields(obj client.Object) *unstructured.Unstructured {
	content := maps.Clone(contentOf(obj))
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		content["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: content}
}

// contentOf returns the unstructured content of an object, empty if it cannot be converted.
func contentOf(obj client.Object) map[string]any {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.UnstructuredContent()
	}
	content, ok := objectdiff.Content(obj)
	if !ok {
		return map[string]any{}
	}
	return content
}

// wrapHandler returns a handler that calls another one and compares the objects afterwards.
func (d *mutationDetector) wrapHandler(handler toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	name := fmt.Sprintf("the handler %T", handler)
	around := func(call func(), objs ...any) {
		var keys []client.ObjectKey
		for _, obj := range objs {
			if o, ok := known(obj); ok {
				keys = append(keys, client.ObjectKeyFromObject(o))
				d.addObject(o, name)
			}
		}
		call()
		for _, key := range keys {
			d.compareObject(key, "after "+name+" returned")
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { around(func() { handler.OnAdd(obj, initial) }, obj) },
		UpdateFunc: func(before, after any) { around(func() { handler.OnUpdate(before, after) }, before, after) },
		DeleteFunc: func(obj any) {
			if o, ok := known(obj); ok {
				defer d.forget(client.ObjectKeyFromObject(o), o.GetUID())
			}
			around(func() { handler.OnDelete(obj) }, obj)
		},
	}
}

// known returns the object that a handler is passed.
func known(obj any) (client.Object, bool) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	o, ok := obj.(client.Object)
	return o, ok
}
