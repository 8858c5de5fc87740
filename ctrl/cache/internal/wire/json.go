package wire

import (
	"bytes"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/ctrl/client"
)

// jsonFormat is JSON as servers write it: the events of a stream follow each other without a
// delimiter.
type jsonFormat struct{}

func (jsonFormat) newSplitter() splitter { return &objectSplitter{} }

func (jsonFormat) splitEvent(frame []byte) (kind, object []byte, ok bool) {
	rest, ok := bytes.CutPrefix(frame, []byte(`{"type":"`))
	if !ok {
		return nil, nil, false
	}
	kind, rest, ok = bytes.Cut(rest, []byte(`"`))
	if !ok {
		return nil, nil, false
	}
	// Further members would be taken for part of the object, which then fails to decode.
	object, ok = bytes.CutPrefix(rest, []byte(`,"object":`))
	return kind, bytes.TrimSuffix(object, []byte("}")), ok
}

func (jsonFormat) decode(data []byte, apiVersion, kind string, obj client.Object) bool {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return json.Unmarshal(data, &u.Object) == nil && u.Object["apiVersion"] == apiVersion && u.Object["kind"] == kind
	}
	if json.Unmarshal(data, obj) != nil {
		return false
	}
	// Decoders clear the kind of typed objects.
	objectKind := obj.GetObjectKind()
	matches := objectKind.GroupVersionKind() == schema.FromAPIVersionAndKind(apiVersion, kind)
	objectKind.SetGroupVersionKind(schema.GroupVersionKind{})
	return matches
}

// splitList implements format. It accepts the members of a Kubernetes list only, each at most once.
func (jsonFormat) splitList(data []byte) (l encodedList, ok bool) {
	members, ok := splitMembers(data, '{')
	if !ok {
		return encodedList{}, false
	}
	seen := map[string]bool{}
	for _, m := range members {
		var into any
		name := string(m.name)
		switch name {
		case `"apiVersion"`:
			into = &l.apiVersion
		case `"kind"`:
			into = &l.kind
		case `"metadata"`:
			into = &l.metadata
		case `"items"`:
			items, ok := splitMembers(m.value, '[')
			if !ok {
				return encodedList{}, false
			}
			l.items = make([][]byte, len(items))
			for i := range items {
				l.items[i] = items[i].value
			}
		default:
			return encodedList{}, false
		}
		if seen[name] || into != nil && json.Unmarshal(m.value, into) != nil {
			return encodedList{}, false
		}
		seen[name] = true
	}
	return l, seen[`"items"`]
}

func (jsonFormat) decodeItem(data []byte, obj client.Object) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return json.Unmarshal(data, &u.Object)
	}
	return json.Unmarshal(data, obj)
}

// member is a member of a JSON object, or an element of an array, which has no name.
type member struct{ name, value []byte }

// splitMembers returns the members of an object or array, depending on its opening bracket.
func splitMembers(data []byte, bracket byte) (all []member, ok bool) {
	data = bytes.Trim(data, whitespace)
	if len(data) < 2 || data[0] != bracket || data[len(data)-1] != bracket+2 {
		return nil, false
	}
	data = bytes.Trim(data[1:len(data)-1], whitespace)
	for len(data) > 0 {
		var m member
		if bracket == '{' {
			if m.name, data, ok = cutValue(data); !ok {
				return nil, false
			}
			if data, ok = bytes.CutPrefix(data, []byte(":")); !ok {
				return nil, false
			}
		}
		if m.value, data, ok = cutValue(data); !ok {
			return nil, false
		}
		all = append(all, m)
		if len(data) == 0 {
			break
		}
		if data, ok = bytes.CutPrefix(data, []byte(",")); !ok || len(bytes.Trim(data, whitespace)) == 0 {
			return nil, false
		}
	}
	return all, true
}

// cutValue cuts an object, an array or a string, and the whitespace around it, off the beginning of
// data. It fails for numbers, booleans and null.
func cutValue(data []byte) (value, rest []byte, ok bool) {
	data = bytes.TrimLeft(data, whitespace)
	var s scanner
	n, done, err := s.scan(data)
	if !done || err != nil {
		return nil, nil, false
	}
	return data[:n], bytes.TrimLeft(data[n:], whitespace), true
}
