package store

import (
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// adopt makes an object with the encoding data the same as decoding data would return, without decoding, and returns the note of
// data. It returns false if the object must be decoded. The object must belong to the store: adopt changes it in any case.
func (s *Store) adopt(obj runtime.Object, data []byte) (*object, uint32, bool) {
	kind, ok := s.decodedKind()
	if !ok || s.transformer != nil || reflect.TypeOf(obj) != reflect.TypeOf(s.newObject()) {
		return nil, noteNone, false
	}
	if v := reflect.ValueOf(obj).Elem(); !formOf(v.Type()).normalize(v) {
		return nil, noteNone, false
	}
	s.setDefaults(obj)
	obj.GetObjectKind().SetGroupVersionKind(kind)
	adopted := &object{Object: obj}
	// The encoding of an exact value has everything that the object has. So the defaults have changed nothing either.
	note := s.noteOf(data, adopted)
	return adopted, note, note&noteExact != 0
}

// kindOfDecoded returns the kind that the codec sets in decoded objects, or false if objects cannot be adopted.
func (s *Store) kindOfDecoded() (schema.GroupVersionKind, bool) {
	if s.setDefaults == nil {
		return schema.GroupVersionKind{}, false
	}
	data, err := runtime.Encode(s.codec, s.newObject())
	if err != nil {
		return schema.GroupVersionKind{}, false
	}
	decoded, err := s.decode(data)
	if err != nil || decoded.converted {
		return schema.GroupVersionKind{}, false
	}
	return decoded.GetObjectKind().GroupVersionKind(), true
}

// form describes the values of a type that are not always as protobuf returns them: without empty lists and maps, and with times of
// a certain precision. A nil form describes a type with none.
type form struct {
	is     formKind
	fields []formField // of a structure
	elem   *form       // of a pointer or a list
}

// formKind says how a value may differ.
type formKind uint8

const (
	structure formKind = iota
	pointer
	list
	dictionary // a map of values that are always as protobuf returns them
	timestamp
	microTimestamp
	unknown // a value that is nil, or else the object must be decoded
)

// formField is a field of a structure that may differ.
type formField struct {
	index int
	form  *form
}

// forms has the forms by type.
var forms sync.Map

// formOf returns the form of the values of a type.
func formOf(t reflect.Type) *form {
	if f, ok := forms.Load(t); ok {
		return f.(*form)
	}
	f := makeForm(t, map[reflect.Type]bool{})
	forms.Store(t, f)
	return f
}

// makeForm makes a form. The types in open contain the type.
func makeForm(t reflect.Type, open map[reflect.Type]bool) *form {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return &form{is: timestamp}
	case reflect.TypeFor[metav1.MicroTime]():
		return &form{is: microTimestamp}
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.FieldsV1]():
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		if open[t] {
			return &form{is: unknown}
		}
		open[t] = true
		defer delete(open, t)
		f := &form{is: structure}
		for i := range t.NumField() {
			field := t.Field(i)
			if inner := makeForm(field.Type, open); inner != nil {
				if !field.IsExported() {
					inner = &form{is: unknown}
				}
				f.fields = append(f.fields, formField{i, inner})
			}
		}
		if f.fields == nil {
			return nil
		}
		return f
	case reflect.Pointer:
		if elem := makeForm(t.Elem(), open); elem != nil {
			return &form{is: pointer, elem: elem}
		}
		return nil
	case reflect.Slice:
		return &form{is: list, elem: makeForm(t.Elem(), open)}
	case reflect.Map:
		if makeForm(t.Elem(), open) != nil {
			return &form{is: unknown}
		}
		return &form{is: dictionary}
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return nil
	}
	return &form{is: unknown}
}

// normalize makes a value as protobuf returns it. It writes only what differs, because values that an object refers to may be
// shared. It returns false if it cannot.
func (f *form) normalize(v reflect.Value) bool {
	if f == nil {
		return true
	}
	switch f.is {
	case structure:
		for _, field := range f.fields {
			if !field.form.normalize(v.Field(field.index)) {
				return false
			}
		}
	case pointer:
		return v.IsNil() || f.elem.normalize(v.Elem())
	case list:
		if v.Len() == 0 && !v.IsNil() {
			v.SetZero()
		}
		if f.elem == nil {
			return true
		}
		for i := range v.Len() {
			if !f.elem.normalize(v.Index(i)) {
				return false
			}
		}
	case dictionary:
		if v.Len() == 0 && !v.IsNil() {
			v.SetZero()
		}
	case timestamp:
		truncate(&v.Addr().Interface().(*metav1.Time).Time, time.Second)
	case microTimestamp:
		truncate(&v.Addr().Interface().(*metav1.MicroTime).Time, time.Microsecond)
	case unknown:
		return v.IsZero()
	}
	return true
}

// truncate makes a time as protobuf returns it.
func truncate(t *time.Time, precision time.Duration) {
	want := time.Time{}
	if !t.IsZero() {
		want = time.Unix(t.Unix(), int64(time.Duration(t.Nanosecond()).Truncate(precision))).Local()
	}
	if *t != want {
		*t = want
	}
}
