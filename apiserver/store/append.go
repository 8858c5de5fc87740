package store

import (
	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store/transcode"
	"flyball.dev/storage"
)

// appender appends the objects of records from the stored values, without decoding them. It has space for one value at a time.
type appender struct {
	store            *Store
	scratch, encoded []byte // for one stored value, and for one encoded object
	space            transcode.Space
}

// appendJSON appends the JSON of an object as an item of a list. It returns false, and appends nothing, if the object must be decoded.
func (a *appender) appendJSON(to []byte, r *storage.Record) ([]byte, bool) {
	if a.store.isText(r) {
		return a.store.appendText(to, r, &a.scratch), true
	}
	if !a.store.isExact(r) {
		return to, false
	}
	a.encoded = a.store.appendVerbatim(a.encoded[:0], r, &a.scratch)
	text, err := a.store.transcoder().Append(to, a.encoded, &a.space)
	if err != nil {
		return to, false // as embedded JSON that is none; the error comes from the encoder
	}
	return text, true
}

// storedObject is the object of one record at a time.
type storedObject struct {
	appender
	record *storage.Record
}

var _ resource.StoredObject = (*storedObject)(nil)

// AppendJSON implements [resource.StoredObject].
func (o *storedObject) AppendJSON(to []byte) ([]byte, bool) { return o.appendJSON(to, o.record) }

// ProtobufSize implements [resource.StoredObject].
func (o *storedObject) ProtobufSize() (int, bool) {
	if !o.store.isVerbatim(o.record) {
		return 0, false
	}
	return o.store.verbatimSize(o.record), true
}

// AppendProtobuf implements [resource.StoredObject].
func (o *storedObject) AppendProtobuf(to []byte) []byte {
	return o.store.appendVerbatim(to, o.record, &o.scratch)
}
