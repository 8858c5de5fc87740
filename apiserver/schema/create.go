package schema

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Creation knows which fields belong to the one who creates an object of a kind. It finds in one walk
// over the object what the general field manager finds by comparing it with an empty one. It is safe
// for concurrent use.
type Creation struct {
	kind reflect.Type
	root func() *part // nil if the kind is beyond us
}

// NewCreation is for objects of a Go type, made under a strategy that resets some fields. The first
// object makes what is needed to know of its type.
//
// Where only the general field manager will do, the creation says no to all objects: if anything but
// whole top-level fields is reset, or if the type holds something that has no schema.
func NewCreation(t reflect.Type, reset *fieldpath.Set) *Creation {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	skip, ok := topLevel(reset)
	if !ok {
		return &Creation{kind: t, root: func() *part { return nil }}
	}
	skip = append(skip, "apiVersion", "kind")
	return &Creation{kind: t, root: sync.OnceValue(func() *part {
		whole := partOf(t)
		if whole == nil {
			return nil
		}
		own := *whole
		own.fields = nil
		for _, f := range whole.fields {
			if f.name == "metadata" {
				f = withoutServerFields(f)
			}
			if !slices.Contains(skip, f.name) {
				own.fields = append(own.fields, f)
			}
		}
		return &own
	})}
}

// topLevel gives the names of the fields in a set, if they are that and no more.
func topLevel(set *fieldpath.Set) (names []string, ok bool) {
	if set == nil {
		return nil, true
	}
	for pe := range set.Members.All() {
		if pe.FieldName == nil {
			return nil, false
		}
		names = append(names, *pe.FieldName)
	}
	return names, set.Children.Empty()
}

// serverFields of metadata have no owner.
var serverFields = []string{"clusterName", "creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "selfLink", "uid"}

func withoutServerFields(metadata *structField) *structField {
	own, parts := *metadata, *metadata.part
	parts.fields = slices.DeleteFunc(slices.Clone(parts.fields), func(f *structField) bool { return slices.Contains(serverFields, f.name) })
	own.part = &parts
	return &own
}

// Own makes manager the owner of the fields of an object that is about to be created in that API
// version. It does just what the general field manager does for a creation, or it changes nothing and
// says no: if the object brings managed fields of its own, or if it holds what this cannot write down,
// such as a list that names an element twice or a key that is not plain text.
func (c *Creation) Own(obj metav1.Object, apiVersion, manager string) bool {
	if obj.GetManagedFields() != nil || manager == "" {
		return false
	}
	fields, ok := c.Fields(obj)
	if fields == nil {
		return ok
	}
	now := metav1.Time{Time: time.Now().UTC()}
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: apiVersion,
		Time: &now, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: fields},
	}})
	return true
}

// Fields is the set of fields that the creation of obj gives away, or nil if there is none; false if
// the general field manager must find it.
func (c *Creation) Fields(obj metav1.Object) ([]byte, bool) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != c.kind {
		return nil, false
	}
	root := c.root()
	if root == nil {
		return nil, false
	}
	w := writer{out: make([]byte, 0, 1024)}
	w.out = append(w.out, '{')
	w.changed(root, v.Elem())
	if w.failed {
		return nil, false
	}
	if len(w.out) == 1 {
		return nil, true
	}
	return append(w.out, '}'), true
}

// writer writes a set of fields as FieldsV1: an object with a key for each field, in which "." stands
// for the field itself where it has parts.
//
// Its two walks differ in what they compare with. Where the empty object already has a value, as every
// nested struct does, changed writes the parts that are not as there. Where it has none, added writes
// the field and all of its parts.
type writer struct {
	out    []byte
	failed bool
}

// changed writes the fields of a struct that are not as in an empty one.
func (w *writer) changed(p *part, v reflect.Value) {
	for _, f := range p.fields {
		x := f.value(v)
		if f.omitted(x) {
			continue
		}
		if f.hiddenWhenZero {
			w.key(f.key)
			w.added(f.part, x)
			continue
		}
		w.changedField(f, x)
	}
}

func (w *writer) changedField(f *structField, v reflect.Value) {
	if v.IsZero() {
		return
	}
	start := len(w.out)
	w.key(f.key)
	switch {
	case v.Kind() == reflect.Struct && f.part.kind == partStruct:
		w.out = append(w.out, '{')
		inside := len(w.out)
		w.changed(f.part, v)
		if len(w.out) == inside {
			w.out = w.out[:start]
			return
		}
		w.out = append(w.out, '}')
	case f.part.kind == partLeaf:
		if v.Kind() == reflect.Struct && looksEmpty(v) {
			w.out = w.out[:start]
			return
		}
		w.out = append(w.out, '{', '}')
	default: // was null: the field itself is not new, but its parts are
		w.out = append(w.out, '{')
		w.parts(f.part, reflect.Indirect(v))
		w.out = append(w.out, '}')
	}
}

// looksEmpty says whether a struct shows the same as an empty one, though it may not be one.
func looksEmpty(v reflect.Value) bool {
	x, err := value.NewValueReflect(v.Addr().Interface())
	if err != nil {
		return false
	}
	y, err := value.NewValueReflect(reflect.New(v.Type()).Interface())
	return err == nil && value.Equals(x, y)
}

// added writes a field that was not there, with its parts.
func (w *writer) added(p *part, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			w.out = append(w.out, '{', '}')
			return
		}
		v = v.Elem()
	}
	w.out = append(w.out, '{')
	if p.kind != partLeaf {
		start := len(w.out)
		w.out = append(w.out, `".":{}`...)
		inside := len(w.out)
		w.parts(p, v)
		if len(w.out) == inside {
			w.out = w.out[:start]
		}
	}
	w.out = append(w.out, '}')
}

// parts writes all that a new value has.
func (w *writer) parts(p *part, v reflect.Value) {
	switch p.kind {
	case partStruct:
		for _, f := range p.fields {
			if x := f.value(v); !f.omitted(x) {
				w.key(f.key)
				w.added(f.part, x)
			}
		}
	case partMap:
		w.entries(p, v)
	case partSet, partKeyed:
		w.elements(p, v)
	}
}

func (w *writer) entries(p *part, v reflect.Value) {
	if v.Len() == 0 {
		return
	}
	names := make([]reflect.Value, 0, 8)
	for it := v.MapRange(); it.Next(); {
		names = append(names, it.Key())
	}
	slices.SortFunc(names, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	for _, name := range names {
		w.comma()
		w.out = append(w.out, `"f:`...)
		w.plain(name.String())
		w.out = append(w.out, `":`...)
		w.added(p.element, v.MapIndex(name))
	}
}

// elements writes the elements of a list in the order of what tells them apart.
func (w *writer) elements(p *part, v reflect.Value) {
	if v.Len() == 0 {
		return
	}
	order := make([]int, v.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return w.compare(p, v.Index(i), v.Index(j)) })
	for n, i := range order {
		x := v.Index(i)
		if n > 0 && w.compare(p, v.Index(order[n-1]), x) == 0 {
			w.failed = true // twice the same
		}
		w.comma()
		if p.kind == partSet {
			w.out = append(w.out, `"v:`...)
			w.scalar(x)
			w.out = append(w.out, `":`...)
		} else {
			w.out = append(w.out, `"k:{`...)
			for k, key := range p.keys {
				if k > 0 {
					w.out = append(w.out, ',')
				}
				w.out = append(w.out, key.escaped...)
				w.scalar(w.keyValue(key, x))
			}
			w.out = append(w.out, `}":`...)
		}
		w.added(p.element, x)
	}
}

func (w *writer) compare(p *part, a, b reflect.Value) int {
	if p.kind == partSet {
		return compareScalars(a, b)
	}
	for _, key := range p.keys {
		if c := compareScalars(w.keyValue(key, a), w.keyValue(key, b)); c != 0 {
			return c
		}
	}
	return 0
}

// keyValue is a field that tells elements apart, or its default if it is left out.
func (w *writer) keyValue(key listKey, element reflect.Value) reflect.Value {
	v := key.value(element)
	if !key.omitted(v) {
		return v
	}
	if !key.fallback.IsValid() {
		w.failed = true
		return v
	}
	return key.fallback
}

func compareScalars(a, b reflect.Value) int {
	if a.Kind() == reflect.String {
		return cmp.Compare(a.String(), b.String())
	}
	return cmp.Compare(a.Int(), b.Int())
}

// scalar writes a value as JSON within a JSON string.
func (w *writer) scalar(v reflect.Value) {
	if v.Kind() == reflect.String {
		w.out = append(w.out, '\\', '"')
		w.plain(v.String())
		w.out = append(w.out, '\\', '"')
		return
	}
	w.out = strconv.AppendInt(w.out, v.Int(), 10)
}

// plain writes text that looks the same within any number of JSON strings.
func (w *writer) plain(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			w.failed = true
		}
	}
	w.out = append(w.out, s...)
}

func (w *writer) key(k string) {
	w.comma()
	w.out = append(w.out, k...)
}

func (w *writer) comma() {
	if w.out[len(w.out)-1] != '{' {
		w.out = append(w.out, ',')
	}
}
