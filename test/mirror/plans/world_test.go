package plans

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/ctrl/client"
)

// key is the name of an object.
type key struct {
	schema.GroupResource
	types.NamespacedName
}

func (k key) String() string { return fmt.Sprintf("%s %s", k.GroupResource, k.Name) }

// world has the objects that a controller reads and writes. It does what the API server does with writes as far as
// the controllers depend on it.
type world struct {
	// refuse, if not nil, returns an error for a write that the API server refuses.
	refuse func(verb string, k key) error
	// undetermined, if not nil, matches text that Kubernetes chooses at random. A change of such text alone is not shown to controllers.
	undetermined *regexp.Regexp

	mu      sync.Mutex
	version int
	objects map[key]client.Object
	last    map[key]client.Object // the last state of objects that are gone
	changed []key                 // since the controller has seen the objects
	writes  []string              // that had an effect
	events  map[string]int        // by their text
}

// versions is the last resource version. It increases from world to world.
var versions int

func newWorld(objects []client.Object) *world {
	w := &world{objects: map[key]client.Object{}, last: map[key]client.Object{}, events: map[string]int{}, version: versions}
	for _, o := range objects {
		o = o.DeepCopyObject().(client.Object)
		w.version++
		o.SetResourceVersion(strconv.Itoa(w.version))
		w.objects[keyOf(o)] = o
	}
	return w
}

// resourceOf returns the resource of a typed object.
func resourceOf(o client.Object) schema.GroupResource { return resourceOfKind(kindOf(o)) }

func resourceOfKind(k schema.GroupVersionKind) schema.GroupResource {
	r, _ := meta.UnsafeGuessKindToResource(k)
	return r.GroupResource()
}

// kindOf returns the version and the kind of a typed object.
func kindOf(o client.Object) schema.GroupVersionKind {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		panic(err)
	}
	return kinds[0]
}

func keyOf(o client.Object) key { return key{resourceOf(o), client.ObjectKeyFromObject(o)} }

// get returns an object, which must not be changed.
func (w *world) get(k key) (client.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.objects[k]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(k.GroupResource, k.Name)
}

// list returns the objects of a resource in the order of their names.
func (w *world) list(r schema.GroupResource) []client.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []client.Object
	for k, o := range w.objects {
		if k.GroupResource == r {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b client.Object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return list
}

// check returns the error of a write that the API server refuses.
func (w *world) check(verb string, k key) error {
	if w.refuse == nil {
		return nil
	}
	return w.refuse(verb, k)
}

func (w *world) create(o client.Object) (client.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o = o.DeepCopyObject().(client.Object)
	k := keyOf(o)
	if err := w.check("create", k); err != nil {
		return nil, err
	}
	if k.Name == "" {
		for n := 0; k.Name == "" || w.objects[k] != nil; n++ {
			k.Name = fmt.Sprint(o.GetGenerateName(), "generated-", n)
		}
		o.SetName(k.Name)
	}
	if w.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(k.GroupResource, k.Name)
	}
	o.SetUID(types.UID(k.String()))
	o.SetCreationTimestamp(metav1.NewTime(time.Now()))
	o.SetGeneration(1)
	if pod, ok := o.(*corev1.Pod); ok {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	}
	w.put(k, o, "create")
	return o.DeepCopyObject().(client.Object), nil
}

// put stores an object.
func (w *world) put(k key, o client.Object, verb string) {
	w.version++
	o.SetResourceVersion(strconv.Itoa(w.version))
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if !w.redundant(w.objects[k], o) {
		w.changed = append(w.changed, k)
	}
	w.objects[k] = o
	w.writes = append(w.writes, fmt.Sprint(verb, " ", k))
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && !graceful(o) {
		delete(w.objects, k)
		w.last[k] = o
	}
}

// redundant reports whether an update changes only undetermined text.
func (w *world) redundant(old, o client.Object) bool {
	if w.undetermined == nil || old == nil {
		return false
	}
	return w.undetermined.ReplaceAllString(text(old), "") == w.undetermined.ReplaceAllString(text(o), "")
}

// graceful reports whether an object that is being deleted stays until kubelet has ended it.
func graceful(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// change replaces an object by what a function makes of it.
func (w *world) change(k key, verb, subresource string, with func(old client.Object) (client.Object, error)) (client.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if subresource != "" {
		verb += " " + subresource + " of"
	}
	if err := w.check(verb, k); err != nil {
		return nil, err
	}
	old := w.objects[k]
	if old == nil {
		return nil, apierrors.NewNotFound(k.GroupResource, k.Name)
	}
	o, err := with(old)
	if err != nil {
		return nil, err
	}
	if rv := o.GetResourceVersion(); rv != "" && rv != old.GetResourceVersion() || o.GetUID() != "" && o.GetUID() != old.GetUID() {
		return nil, apierrors.NewConflict(k.GroupResource, k.Name, errors.New("the object has been modified"))
	}
	keep(o, old, subresource)
	if !same(o, old) {
		w.put(k, o, verb)
	}
	return o.DeepCopyObject().(client.Object), nil
}

// keep keeps the fields that a write does not change.
func keep(o, old client.Object, subresource string) {
	o.SetUID(old.GetUID())
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	to, from := reflect.ValueOf(o).Elem(), reflect.ValueOf(old.DeepCopyObject()).Elem()
	if !to.FieldByName("Status").IsValid() {
		return
	}
	if subresource == "" {
		to.FieldByName("Status").Set(from.FieldByName("Status"))
		return
	}
	to.FieldByName("Spec").Set(from.FieldByName("Spec"))
	o.SetLabels(old.GetLabels())
	o.SetFinalizers(old.GetFinalizers())
	o.SetOwnerReferences(old.GetOwnerReferences())
}

// same reports whether two objects have the same JSON.
func same(a, b client.Object) bool { return text(a) == text(b) }

// text returns an object as JSON, without the fields that differ in each write.
func text(o client.Object) string {
	o = o.DeepCopyObject().(client.Object)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	data, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (w *world) update(o client.Object, subresource string) (client.Object, error) {
	return w.change(keyOf(o), "update", subresource, func(client.Object) (client.Object, error) {
		return o.DeepCopyObject().(client.Object), nil
	})
}

func (w *world) patch(k key, t types.PatchType, data []byte, subresource string) (client.Object, error) {
	return w.change(k, "update", subresource, func(old client.Object) (client.Object, error) {
		before, err := json.Marshal(old)
		if err != nil {
			return nil, err
		}
		o := reflect.New(reflect.TypeOf(old).Elem()).Interface().(client.Object)
		var after []byte
		switch t {
		case types.StrategicMergePatchType:
			after, err = strategicpatch.StrategicMergePatch(before, data, o)
		case types.MergePatchType:
			after, err = jsonpatch.MergePatch(before, data)
		default:
			err = fmt.Errorf("a patch of type %s", t)
		}
		if err != nil {
			return nil, err
		}
		return o, json.Unmarshal(after, o)
	})
}

func (w *world) delete(k key, p *metav1.Preconditions) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.check("delete", k); err != nil {
		return err
	}
	old := w.objects[k]
	if old == nil {
		return apierrors.NewNotFound(k.GroupResource, k.Name)
	}
	if p != nil && (p.UID != nil && *p.UID != old.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion()) {
		return apierrors.NewConflict(k.GroupResource, k.Name, errors.New("a precondition failed"))
	}
	if old.GetDeletionTimestamp() != nil {
		return nil
	}
	o := old.DeepCopyObject().(client.Object)
	o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	w.put(k, o, "delete")
	return nil
}

// record records an event.
func (w *world) record(eventType, reason, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[eventType+" "+reason+": "+message]++
}

// takeChanged returns what has changed since the last call.
func (w *world) takeChanged() []key {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := w.changed
	w.changed = nil
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(keys)
}
