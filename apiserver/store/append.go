package store

import (
	"context"
	"errors"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store/transcode"
	"flyball.dev/storage"
)

// appender appends the objects of records from the stored values, without decoding them. It has space for one value at a time.
type appender struct {
	ctx              context.Context // of the request
	store            *Store
	scratch, encoded []byte // for one stored value, and for one encoded object
	space            transcode.Space
}

// errNotVerbatim is the error of a value that is not what its note says, as from a transformer that returns another one than before.
var errNotVerbatim = errors.New("the value has changed")

// raw returns the encoded object of a verbatim record. It fails only if the object is encrypted.
func (a *appender) raw(r *storage.Record) ([]byte, error) {
	data, err := a.store.open(a.ctx, r, &a.scratch)
	if err != nil {
		return nil, err
	}
	raw, ok := a.store.encodedObject(data)
	if !ok {
		return nil, errNotVerbatim
	}
	return raw, nil
}

// appendJSON appends the JSON of an object as an item of a list. It returns false, and appends nothing, if the object must be decoded.
func (a *appender) appendJSON(to []byte, r *storage.Record) ([]byte, bool) {
	if a.store.isText(r) {
		text, err := a.store.open(a.ctx, r, &a.scratch)
		if err != nil {
			return to, false
		}
		return appendText(to, text, r.Revision), true
	}
	if !a.store.isExact(r) {
		return to, false
	}
	raw, err := a.raw(r)
	if err != nil {
		return to, false
	}
	a.encoded = appendVerbatim(a.encoded[:0], raw, r.Revision)
	text, err := a.store.transcoder().Append(to, a.encoded, &a.space)
	if err != nil {
		return to, false // as embedded JSON that is none; the error comes from the encoder
	}
	return text, true
}

// storedObject is the object of one item at a time.
type storedObject struct {
	appender
	item item
}

var _ resource.StoredObject = (*storedObject)(nil)

// AppendJSON implements [resource.StoredObject].
func (o *storedObject) AppendJSON(to []byte) ([]byte, bool) { return o.appendJSON(to, o.item.record) }

// ProtobufSize implements [resource.StoredObject].
func (o *storedObject) ProtobufSize() (int, bool) { return int(o.item.size), o.item.size > 0 }

// AppendProtobuf implements [resource.StoredObject].
func (o *storedObject) AppendProtobuf(to []byte) ([]byte, bool) {
	raw, err := o.raw(o.item.record)
	if err != nil {
		return to, false
	}
	return appendVerbatim(to, raw, o.item.record.Revision), true
}
