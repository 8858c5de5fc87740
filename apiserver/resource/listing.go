package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Listing takes the objects of one list as they are stored, so that a handler can encode them one after another without
// having all of them decoded. A storage that knows it fills the Listing instead of the items of the list.
type Listing struct {
	// Objects are the objects of the list; nil if the storage has set the items of the list.
	Objects StoredObjects
}

// StoredObjects are the objects of a list. Each object can be taken once, by Decode or by an Append method. Only one
// goroutine may use them at a time.
type StoredObjects interface {
	Len() int
	// Decode sets the items of a list to the objects from one index up to another. The caller owns the items as it owns
	// the items of a list of the storage, until the next call with the same list, which may use their memory.
	Decode(list runtime.Object, from, to int) error
	// DecodeForCells is Decode for cells of tables, of objects with metadata that AppendMetadata has appended. The objects may be
	// without managed fields.
	DecodeForCells(list runtime.Object, from, to int) error
	// AppendJSON appends the JSON of an object as an item of a list, without decoding it. It returns false, and appends
	// nothing, if the object must be decoded.
	AppendJSON(to []byte, i int) ([]byte, bool)
	// AppendMetadata appends the JSON of the metadata of an object, without decoding and without taking it. It returns
	// false, and appends nothing, if the object must be decoded.
	AppendMetadata(to []byte, i int) ([]byte, bool)
	// ProtobufSize returns the size of an object in protobuf as an item of a list, or false if the object has no such
	// encoding.
	ProtobufSize(i int) (int, bool)
	// AppendProtobuf appends the encoding of an object that ProtobufSize returns the size of. It copies stored bytes
	// if they are this encoding but for the resource version.
	AppendProtobuf(to []byte, i int) ([]byte, error)
	// ProtobufMetadataSize and AppendProtobufMetadata are ProtobufSize and AppendProtobuf for the PartialObjectMetadata of an object.
	ProtobufMetadataSize(i int) (int, bool)
	AppendProtobufMetadata(to []byte, i int) ([]byte, error)
}

// StoredObject is one stored object. Only one goroutine may use it at a time.
type StoredObject interface {
	// AppendJSON appends the JSON of the object as an item of a list, without decoding it. It returns false, and appends
	// nothing, if the object must be decoded.
	AppendJSON(to []byte) ([]byte, bool)
	// ProtobufSize returns the size of the object in protobuf, or false if the object must be decoded.
	ProtobufSize() (int, bool)
	// AppendProtobuf appends the encoding of an object that ProtobufSize returns the size of. It returns false, and appends
	// nothing, if the object must be decoded.
	AppendProtobuf(to []byte) ([]byte, bool)
}

// listingKey is the context key of WithListing.
type listingKey struct{}

// WithListing returns a context for one list of a storage, which may fill l.
func WithListing(ctx context.Context, l *Listing) context.Context {
	return context.WithValue(ctx, listingKey{}, l)
}

// ListingFrom returns the listing of WithListing, or nil if there is none or it is filled.
func ListingFrom(ctx context.Context) *Listing {
	if l, ok := ctx.Value(listingKey{}).(*Listing); ok && l.Objects == nil {
		return l
	}
	return nil
}
