package store

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file has the optional interfaces of a [Store]'s codec. A codec that implements one says so in its package:
// var _ store.Copier = (*codec)(nil).

// Converter is a codec that may call conversion webhooks. Converting an object a second time may have another result.
type Converter interface {
	// Converts reports whether a webhook converts objects of a kind.
	Converts(stored schema.GroupVersionKind) bool
}

// Copier is a codec that can copy objects faster than it decodes them.
type Copier interface {
	// CopyStored returns the same object as decoding the encoding of obj, or false if the caller must decode the
	// encoding. The result may share parts with last, the object that it replaces; last may be nil.
	CopyStored(obj, last runtime.Object) (runtime.Object, bool)
}

// TextCodec is a codec that stores objects as the JSON that clients get, but for the resource version and a newline at the end. Its
// keys are sorted.
type TextCodec interface {
	// AppendText appends the JSON of an object.
	AppendText(to []byte, obj runtime.Object) ([]byte, error)
}
