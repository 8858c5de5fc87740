package endpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/apiserver/resource"
)

// listChunk is the largest number of objects that are decoded together. Large objects are decoded one by one.
const listChunk = 16

// jsonList encodes lists as JSON. The encoder encodes the list without items, and then a list for each chunk of
// objects; only the items of these are written. Objects with a JSON that follows from the stored bytes are not decoded.
type jsonList struct {
	encoder runtime.Encoder
	stored  bool   // the items are the objects, in the stored version
	none    []byte // the field with the items in an encoded list without any
	// convert makes a list the object that is encoded, as a table. Chunks need not have a head, such as the columns. It may be nil.
	convert func(list runtime.Object, head bool) (runtime.Object, error)
	rows    *tableRows // encodes the chunks of a table; nil for other lists
}

// The items of an empty list, and the rows of an empty table. In a string, the quotation marks would be escaped.
var noItems, noRows = []byte(`"items":[]`), []byte(`"rows":[]`)

var comma = []byte(",")

// encode is an [encodeList].
func (j jsonList) encode(list runtime.Object, objects resource.StoredObjects, w *listResponse) error {
	if err := meta.SetList(list, []runtime.Object{}); err != nil {
		return err
	}
	if j.convert != nil && objects.Len() == 0 {
		return errOutput // some tables without rows have no list of rows
	}
	var buffer bytes.Buffer
	before, after, err := j.around(list, true, &buffer)
	if err != nil {
		return err
	}
	start, end, err := j.around(list, false, &buffer)
	if err != nil {
		return err
	}
	chunk := func(from, to int) ([]byte, error) {
		if j.rows != nil {
			return j.rows.encode(list, objects, from, to)
		}
		if err := objects.Decode(list, from, to); err != nil {
			return nil, err
		}
		if err := j.marshal(list, false, &buffer); err != nil {
			return nil, nameUnencodable(list, err)
		}
		return bytes.TrimSuffix(bytes.TrimPrefix(buffer.Bytes(), start), end), nil
	}
	w.begin(runtime.ContentTypeJSON)
	w.write(before)
	for from, to, n := 0, 0, 1; from < objects.Len() && w.err == nil; from = to {
		if from > 0 {
			w.write(comma)
		}
		if j.stored {
			var ok bool
			if w.buffer, ok = objects.AppendJSON(w.buffer, from); ok {
				w.flushFull()
				to = from + 1
				continue
			}
		}
		to = min(from+n, objects.Len())
		items, err := chunk(from, to)
		if err != nil {
			return err
		}
		w.write(items)
		n = max(1, min(listChunk, listBuffer*(to-from)/max(1, len(items)))) // next time, about a buffer full
	}
	w.write(after)
	return w.err
}

// around returns the bytes before and after the items of a list, from the list without items.
func (j jsonList) around(list runtime.Object, head bool, buffer *bytes.Buffer) (before, after []byte, err error) {
	if err := j.marshal(list, head, buffer); err != nil {
		return nil, nil, err
	}
	empty := bytes.Clone(buffer.Bytes())
	at := bytes.Index(empty, j.none) + len(j.none) - 1
	if at < len(j.none) {
		return nil, nil, errOutput
	}
	return empty[:at], empty[at:], nil
}

// marshal encodes a list into a buffer, which it empties first.
func (j jsonList) marshal(list runtime.Object, head bool, buffer *bytes.Buffer) (err error) {
	if j.convert != nil {
		if list, err = j.convert(list, head); err != nil {
			return err
		}
	}
	buffer.Reset()
	allocator := runtime.AllocatorPool.Get().(*runtime.Allocator)
	defer runtime.AllocatorPool.Put(allocator)
	return encodeWith(j.encoder, allocator, list, buffer)
}

// nameUnencodable adds to err the name of the first object that JSON cannot encode, such as an object with invalid embedded JSON.
func nameUnencodable(list runtime.Object, err error) error {
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		_, unencodable := json.Marshal(obj)
		if unencodable != nil {
			err = named(obj, err)
		}
		return unencodable
	})
	return err
}

// named adds the name of an object to its error.
func named(obj runtime.Object, err error) error {
	m, unnamed := meta.Accessor(obj)
	if unnamed != nil {
		return err
	}
	return fmt.Errorf("%s: %w", path.Join(m.GetNamespace(), m.GetName()), err)
}
