// Package transcode encodes stored objects as JSON without decoding them. A [Type] is made from the tags of a Go type of
// k8s.io/api. It reads the protobuf encoding of an object, and appends the bytes that encoding/json returns for the decoded
// object.
//
// The encoding must be the one that the generated methods return for the decoded object: fields in the order of their
// numbers, keys of maps in order, quantities in their canonical form. [Type.Append] rejects what it recognizes as another
// encoding, but it cannot recognize everything.
//
// An object may have content that its protobuf encoding has not, and that JSON shows, such as an empty list that is not nil.
// [Type.Exact] reports whether an object has none.
package transcode

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
)

// Type transcodes the objects of a Go type. It is immutable.
type Type struct {
	goType reflect.Type
	root   *message
}

// known has the types that were asked for, a *Type or an error by reflect.Type, and the messages that they share.
var known struct {
	types sync.Map

	mu       sync.Mutex
	messages map[reflect.Type]*message
}

// GoType returns the struct type that the Type is made from.
func (t *Type) GoType() reflect.Type { return t.goType }

// For returns the Type of a struct type. It fails if the type has a field that it does not support.
func For(t reflect.Type) (*Type, error) {
	made, ok := known.types.Load(t)
	if !ok {
		made, _ = known.types.LoadOrStore(t, compile(t))
	}
	if err, ok := made.(error); ok {
		return nil, err
	}
	return made.(*Type), nil
}

// compile returns the *Type of a type, or an error.
func compile(t reflect.Type) any {
	known.mu.Lock()
	defer known.mu.Unlock()
	c := compiler{known: known.messages, made: map[reflect.Type]*message{}}
	root, err := c.message(t)
	if err != nil {
		return fmt.Errorf("%v: %w", t, err)
	}
	c.findInexact()
	if known.messages == nil {
		known.messages = map[reflect.Type]*message{}
	}
	maps.Copy(known.messages, c.made)
	return &Type{t, root}
}

// errNotCanonical is the error for an encoding that the generated methods do not return.
var errNotCanonical = errors.New("the encoding is not canonical")

// Append appends the JSON of an object with a protobuf encoding. If it fails, the object must be decoded.
func (t *Type) Append(to, encoded []byte, s *Space) ([]byte, error) {
	to = append(to, '{')
	to, err := t.root.append(to, encoded, s)
	if err != nil {
		return nil, err
	}
	return append(to, '}'), nil
}

// Exact reports whether the protobuf encoding of an object, a pointer to a struct, has everything that the JSON of the object
// shows. The kind and the version of the object itself do not count.
func (t *Type) Exact(obj any) bool {
	v := reflect.ValueOf(obj)
	return v.Type() == reflect.PointerTo(t.goType) && t.root.exact(v.Elem(), true)
}

// Space is space for Append. Only one goroutine may use it at a time. The zero value is ready to use.
type Space struct {
	spans []span
	// raw has the JSON of embedded JSON, such as managed fields, which many objects have in common.
	raw map[string][]byte
}

// span is a part of an encoded message: the fields with one number, which follow one another. The zero value is no field.
type span struct{ from, to int }
