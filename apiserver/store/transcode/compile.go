package transcode

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// message is a struct type.
type message struct {
	fields   []field // in the order of the JSON
	byNumber []int16 // index in fields by number; -1 if there is none
	// inexact are the fields that [Type.Exact] examines.
	inexact []*field
}

// field is a field of a message.
type field struct {
	value
	index     int
	key       []byte // the name in JSON, with the colon
	number    int
	shape     shape
	omitEmpty bool
	omitZero  bool
	inline    bool // the fields of the message are fields of the outer message in JSON
	typeMeta  bool // the kind and the version, which protobuf does not have
}

// isVarint reports whether a field, an item or a value in a map is a number in protobuf.
func (t value) isVarint() bool { return t.kind == kindBool || t.kind == kindInt }

// value is the type of a field, of an item or of a value in a map.
type value struct {
	kind    kind
	bits    int      // of an integer
	message *message // of a struct
}

// shape is how often a field has its value.
type shape uint8

const (
	single shape = iota
	pointer
	list
	mapped
)

// kind is the kind of a value, by its encoding in JSON.
type kind uint8

const (
	kindString kind = iota
	kindBytes
	kindBool
	kindInt
	kindMessage
	// The kinds with methods of their own for JSON.
	kindTime
	kindMicroTime
	kindQuantity
	kindIntOrString
	kindRaw
	kindFields
)

// special has the types with methods of their own.
var special = map[reflect.Type]kind{
	reflect.TypeFor[metav1.Time]():          kindTime,
	reflect.TypeFor[metav1.MicroTime]():     kindMicroTime,
	reflect.TypeFor[resource.Quantity]():    kindQuantity,
	reflect.TypeFor[intstr.IntOrString]():   kindIntOrString,
	reflect.TypeFor[runtime.RawExtension](): kindRaw,
	reflect.TypeFor[metav1.FieldsV1]():      kindFields,
}

// maxNumber bounds the numbers of fields.
const maxNumber = 1000

// compiler makes the messages of a type and of all types in it that are not known.
type compiler struct{ known, made map[reflect.Type]*message }

// message returns the message of a struct type.
func (c *compiler) message(t reflect.Type) (*message, error) {
	if m, ok := c.known[t]; ok {
		return m, nil
	}
	if m, ok := c.made[t]; ok {
		return m, nil
	}
	if t.Kind() != reflect.Struct {
		return nil, errors.New("not a struct")
	}
	m := &message{}
	c.made[t] = m
	names := map[string]bool{}
	for i := range t.NumField() {
		f, ok, err := c.field(t.Field(i))
		if err == nil && ok {
			f.index = i
			err = addNames(names, &f)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Field(i).Name, err)
		}
		if ok {
			m.fields = append(m.fields, f)
		}
	}
	for i, f := range m.fields {
		if f.typeMeta {
			continue
		}
		for len(m.byNumber) <= f.number {
			m.byNumber = append(m.byNumber, -1)
		}
		if m.byNumber[f.number] >= 0 {
			return nil, fmt.Errorf("two fields have the number %d", f.number)
		}
		m.byNumber[f.number] = int16(i)
	}
	return m, nil
}

// addNames adds the names of a field in the JSON of its message. Names that conflict have rules in encoding/json that no
// type of Kubernetes needs.
func addNames(names map[string]bool, f *field) error {
	if f.inline {
		for i := range f.message.fields {
			if err := addNames(names, &f.message.fields[i]); err != nil {
				return err
			}
		}
		return nil
	}
	name := string(f.key)
	if !f.typeMeta && names[name] {
		return fmt.Errorf("two fields have the name %s", name)
	}
	names[name] = true
	return nil
}

// field returns a field, or false if neither encoding has it.
func (c *compiler) field(s reflect.StructField) (f field, ok bool, err error) {
	tag, inProtobuf := s.Tag.Lookup("protobuf")
	name, options, _ := strings.Cut(s.Tag.Get("json"), ",")
	if s.Anonymous && s.Type == reflect.TypeFor[metav1.TypeMeta]() && name == "" && !inProtobuf {
		return field{typeMeta: true}, true, nil
	}
	if !s.IsExported() || name == "-" && options == "" && !inProtobuf {
		return f, false, nil
	}
	if name == "-" || !inProtobuf {
		return f, false, errors.New("only one of the encodings has it")
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			f.omitZero = true
		case "string":
			return f, false, errors.New("a number in a string")
		}
	}
	if f.inline = s.Anonymous && name == ""; name == "" {
		name = s.Name
	}
	f.key = append(appendString(nil, []byte(name)), ':')
	if err := f.parseTag(tag); err != nil {
		return f, false, err
	}
	if err := c.shape(&f, s.Type); err != nil {
		return f, false, err
	}
	if f.inline && (f.shape != single || f.kind != kindMessage) {
		return f, false, errors.New("it is embedded")
	}
	if f.omitZero && (f.shape != single || f.kind != kindTime) {
		return f, false, errors.New("it is omitted if it is zero")
	}
	return f, true, nil
}

// parseTag sets the number of a field. The wire type follows from the Go type; many tags have another one.
func (f *field) parseTag(tag string) (err error) {
	parts := strings.SplitN(tag, ",", 3)
	if len(parts) < 2 {
		return errors.New("the tag for protobuf is not complete")
	}
	f.number, err = strconv.Atoi(parts[1])
	if err == nil && (f.number < 1 || f.number > maxNumber) {
		err = errors.New("the number is out of range")
	}
	return err
}

// shape sets the shape and the type of a field.
func (c *compiler) shape(f *field, t reflect.Type) (err error) {
	_, isSpecial := special[t]
	switch {
	case isSpecial || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
	case t.Kind() == reflect.Pointer:
		f.shape, t = pointer, t.Elem()
	case hasMethods(t):
		return fmt.Errorf("%v has methods of its own", t)
	case t.Kind() == reflect.Slice:
		f.shape, t = list, t.Elem()
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !hasMethods(t.Key()):
		f.shape, t = mapped, t.Elem()
	}
	f.value, err = c.value(t)
	return err
}

// value returns the type of a value that is neither a list nor a map.
func (c *compiler) value(t reflect.Type) (value, error) {
	if k, ok := special[t]; ok {
		return value{kind: k}, nil
	}
	if hasMethods(t) {
		return value{}, fmt.Errorf("%v has methods of its own", t)
	}
	switch t.Kind() {
	case reflect.String:
		return value{kind: kindString}, nil
	case reflect.Bool:
		return value{kind: kindBool}, nil
	case reflect.Int32, reflect.Int64:
		return value{kind: kindInt, bits: t.Bits()}, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return value{kind: kindBytes}, nil
		}
	case reflect.Struct:
		m, err := c.message(t)
		return value{kind: kindMessage, message: m}, err
	}
	return value{}, fmt.Errorf("%v is not supported", t)
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	sizer         = reflect.TypeFor[interface{ Size() int }]()
)

// hasMethods reports whether a type has methods for JSON, or, if it is no struct, for protobuf.
func hasMethods(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler) || t.Kind() != reflect.Struct && p.Implements(sizer)
}
