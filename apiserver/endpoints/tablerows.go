package endpoints

import (
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/resource"
)

// tableRows encodes the rows of a table as encoding/json does. Most rows include the metadata of their object. Its JSON often
// follows from the stored bytes.
type tableRows struct {
	// table makes a table of a list. Its rows have the objects, and object returns what a row includes of one.
	table  func(list runtime.Object) (*metav1.Table, error)
	object func(obj runtime.Object) (runtime.Object, error)
	// start is the JSON of the included object before the metadata; nil if the rows include something else.
	start []byte

	encoded  []byte
	metadata []byte
	ends     []int // of each object's metadata
}

// metadataOf says that the rows include the metadata of their objects, as an object of a version.
func (r *tableRows) metadataOf(version schema.GroupVersion) {
	r.start = []byte(`{"kind":"PartialObjectMetadata","apiVersion":"` + version.String() + `","metadata":`)
}

// encode returns the rows of objects, with commas between them. They are valid until the next call.
func (r *tableRows) encode(list runtime.Object, objects resource.StoredObjects, from, to int) ([]byte, error) {
	stored := r.start != nil
	r.metadata, r.ends = r.metadata[:0], r.ends[:0]
	for i := from; stored && i < to; i++ {
		r.metadata, stored = objects.AppendMetadata(r.metadata, i)
		r.ends = append(r.ends, len(r.metadata))
	}
	decode := objects.Decode
	if stored {
		decode = objects.DecodeForCells
	}
	if err := decode(list, from, to); err != nil {
		return nil, err
	}
	table, err := r.table(list)
	if err != nil {
		return nil, err
	}
	if stored && len(table.Rows) != to-from {
		return nil, fmt.Errorf("a table of %d objects has %d rows", to-from, len(table.Rows))
	}
	r.encoded = r.encoded[:0]
	for i := range table.Rows {
		if i > 0 {
			r.encoded = append(r.encoded, ',')
		}
		if err := r.appendCells(&table.Rows[i]); err != nil {
			return nil, err
		}
		if stored {
			begin := 0
			if i > 0 {
				begin = r.ends[i-1]
			}
			r.encoded = append(append(r.encoded, r.start...), r.metadata[begin:r.ends[i]]...)
			r.encoded = append(r.encoded, "}}"...)
			continue
		}
		obj, err := r.object(table.Rows[i].Object.Object)
		if err != nil {
			return nil, err
		}
		if r.encoded, err = appendMarshalled(r.encoded, obj); err != nil {
			return nil, named(obj, err)
		}
		r.encoded = append(r.encoded, '}')
	}
	return r.encoded, nil
}

// appendCells appends a row up to its object.
func (r *tableRows) appendCells(row *metav1.TableRow) (err error) {
	r.encoded = append(r.encoded, `{"cells":`...)
	if row.Cells == nil {
		r.encoded = append(r.encoded, "null"...)
	} else {
		r.encoded = append(r.encoded, '[')
		for i, cell := range row.Cells {
			if i > 0 {
				r.encoded = append(r.encoded, ',')
			}
			if r.encoded, err = appendCell(r.encoded, cell); err != nil {
				return err
			}
		}
		r.encoded = append(r.encoded, ']')
	}
	if len(row.Conditions) > 0 {
		if r.encoded, err = appendMarshalled(append(r.encoded, `,"conditions":`...), row.Conditions); err != nil {
			return err
		}
	}
	r.encoded = append(r.encoded, `,"object":`...)
	return nil
}

// appendCell appends a cell, of the usual types without an allocation.
func appendCell(to []byte, cell any) ([]byte, error) {
	switch c := cell.(type) {
	case string:
		if isPlain(c) {
			return append(append(append(to, '"'), c...), '"'), nil
		}
	case int64:
		return strconv.AppendInt(to, c, 10), nil
	case int32:
		return strconv.AppendInt(to, int64(c), 10), nil
	}
	return appendMarshalled(to, cell)
}

// isPlain reports whether JSON has a string as it is.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// appendMarshalled appends the JSON of a value.
func appendMarshalled(to []byte, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return append(to, text...), err
}
