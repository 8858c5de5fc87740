// Package objectdiff names the fields in which two states of an object differ.
package objectdiff

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxFields is how many fields Fields names.
const maxFields = 8

// Fields returns the paths of the fields in which two states of an object differ, and the field
// managers that own them now: "spec.replicas, status.phase by operator". It never includes values.
// metadata.resourceVersion and metadata.managedFields, which every write changes, are ignored. It
// converts both objects to unstructured content, so it is slow.
func Fields(before, after any) string {
	var d differ
	d.differences(before, after)
	if len(d.paths) == 0 {
		return ""
	}
	texts := sorted(d.paths)
	if len(texts) > maxFields {
		texts = append(texts[:maxFields], "...")
	}
	text := strings.Join(texts, ", ")
	if managers := owners(after, d.paths); len(managers) > 0 {
		text += " by " + strings.Join(managers, ", ")
	}
	return text
}

// Change is a field in which two states of an object differ, with its value after the change, nil if
// it was removed, and before, nil if it was added.
type Change struct {
	Path          string
	Value, Before any

	at path
}

// At returns the path with the names of all fields after a dot, and the keys and indices of list
// elements in brackets: "metadata.annotations.example.com/note", "status.conditions[Ready].reason".
func (c *Change) At() string {
	var b strings.Builder
	for i, step := range c.at {
		name, ok := step.(string)
		switch {
		case !ok:
			fmt.Fprintf(&b, "[%v]", step)
		case i == 0:
			b.WriteString(name)
		default:
			b.WriteString("." + name)
		}
	}
	return b.String()
}

// Changes returns the fields that differ, in no order. Unlike Fields, it compares elements of lists
// that have a type, a name or a UID by that, wherever they are: "status.conditions[Ready].reason". A
// list in which only the order differs is a change as a whole.
func Changes(before, after any) []Change {
	d := differ{keyed: true}
	d.differences(before, after)
	changes := make([]Change, len(d.paths))
	for i, p := range d.paths {
		changes[i] = Change{p.String(), d.values[i], d.before[i], p}
	}
	return changes
}

func sorted(paths []path) []string {
	texts := make([]string, 0, len(paths))
	for _, p := range paths {
		texts = append(texts, p.String())
	}
	slices.Sort(texts)
	return texts
}

// Content returns the unstructured content of an object, or false if it has none. It does not panic,
// whatever the type of the object is. The caller owns the content.
func Content(obj any) (map[string]any, bool) {
	if v := reflect.ValueOf(obj); !v.IsValid() || v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, false
	}
	if m, ok := contained(func() (map[string]any, error) {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	}); ok {
		return m, true
	}
	// The converter panics, among others, on embedded pointers that are nil.
	return contained(func() (m map[string]any, err error) {
		data, err := json.Marshal(obj)
		if err == nil {
			err = utiljson.Unmarshal(data, &m)
		}
		return m, err
	})
}

// contained returns what f returns, or false if it returns an error or panics, as a method of the object
// may.
func contained(f func() (map[string]any, error)) (m map[string]any, ok bool) {
	defer func() {
		if recover() != nil {
			m, ok = nil, false
		}
	}()
	m, err := f()
	return m, err == nil
}

// path is the path to a field: field names, and indices of list elements.
type path []any

func (p path) String() string {
	var b strings.Builder
	for i, step := range p {
		name, ok := step.(string)
		switch {
		case !ok || strings.ContainsAny(name, "./"):
			fmt.Fprintf(&b, "[%v]", step)
		case i == 0:
			b.WriteString(name)
		default:
			b.WriteString("." + name)
		}
	}
	return b.String()
}

func (p path) to(step any) path { return append(p[:len(p):len(p)], step) }

// differ collects the paths of the fields that differ, with their values afterwards and before.
type differ struct {
	paths  []path
	values []any
	before []any
	keyed  bool // compare elements of lists by their keys
}

// differences compares two states of an object. It says nothing of other values.
func (d *differ) differences(before, after any) {
	a, okA := Content(before)
	b, okB := Content(after)
	if okA && okB {
		d.compare(nil, a, b)
	}
}

// elementKey is a step of a path: the key of a list element.
type elementKey string

// elements returns the elements of a list by their keys, or false if it is not a list of objects
// with keys. It is also that for the finalizers of an object, which are their own keys.
func elements(at path, list []any) (map[elementKey]any, bool) {
	if at.String() == "metadata.finalizers" {
		byKey := map[elementKey]any{}
		for _, e := range list {
			byKey[elementKey(fmt.Sprint(e))] = e
		}
		return byKey, len(byKey) == len(list)
	}
	for _, name := range []string{"type", "name", "uid"} {
		byKey := map[elementKey]any{}
		for _, e := range list {
			object, _ := e.(map[string]any)
			if key, _ := object[name].(string); key != "" {
				byKey[elementKey(key)] = e
			}
		}
		if len(byKey) == len(list) {
			return byKey, true
		}
	}
	return nil, false
}

// emptied returns an empty list for a value that is nil where the other one is a list.
func emptied(value, other any) any {
	if _, ok := other.([]any); ok && value == nil {
		return []any{}
	}
	return value
}

// compareElements compares two lists by the keys of their elements, and reports whether they have
// any.
func (d *differ) compareElements(at path, a, b []any) bool {
	byKeyA, okA := elements(at, a)
	byKeyB, okB := elements(at, b)
	if !okA || !okB {
		return false
	}
	before := len(d.paths)
	all := maps.Clone(byKeyA)
	maps.Copy(all, byKeyB)
	for key := range all {
		d.compare(at.to(key), byKeyA[key], byKeyB[key])
	}
	if len(d.paths) == before && !reflect.DeepEqual(a, b) {
		d.add(at, a, b)
	}
	return true
}

func (d *differ) add(at path, before, value any) {
	d.paths, d.values, d.before = append(d.paths, at), append(d.values, value), append(d.before, before)
}

// compare adds the paths at and below a path at which a and b differ. It ignores what every write
// changes.
func (d *differ) compare(at path, a, b any) {
	switch at.String() {
	case "metadata.resourceVersion", "metadata.managedFields":
		return
	}
	if d.keyed {
		a, b = emptied(a, b), emptied(b, a)
	}
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			all := maps.Clone(a)
			maps.Copy(all, b)
			for key := range all {
				d.compare(at.to(key), a[key], b[key])
			}
			return
		}
	case []any:
		b, ok := b.([]any)
		if ok && d.keyed && d.compareElements(at, a, b) {
			return
		}
		if ok && len(a) == len(b) {
			for i := range a {
				d.compare(at.to(i), a[i], b[i])
			}
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		d.add(at, a, b)
	}
}

// owners returns the field managers that own at least one of the fields.
func owners(obj any, paths []path) []string {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	var managers []string
	for _, entry := range o.GetManagedFields() {
		var fields map[string]any
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		ownsOne := slices.ContainsFunc(paths, func(p path) bool { return owned(fields, p) })
		if ownsOne && !slices.Contains(managers, entry.Manager) {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

// owned reports whether a FieldsV1 set contains the path. List elements are not distinguished.
func owned(fields map[string]any, p path) bool {
	for _, step := range p {
		name, ok := step.(string)
		if !ok || len(fields) == 0 {
			return true
		}
		if fields, ok = fields["f:"+name].(map[string]any); !ok {
			return false
		}
	}
	return true
}
