package store

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/internal/protobuf"
)

// selector selects the objects of a list or a watch. It gets the attributes of an object only if the metadata does not
// suffice, because getting attributes allocates.
type selector struct {
	predicate apistorage.SelectionPredicate
	all       bool // everything matches
	metadata  bool // nothing but labels, name and namespace matter
}

func newSelector(p apistorage.SelectionPredicate) selector {
	s := selector{predicate: p, all: p.Empty(), metadata: p.ShardSelector == nil && p.Label != nil}
	if s.metadata && p.Field != nil {
		for _, r := range p.Field.Requirements() {
			s.metadata = s.metadata && (r.Field == "metadata.name" || r.Field == "metadata.namespace")
		}
	}
	return s
}

// matches reports whether an object is selected. An object without attributes is not selected.
func (s *selector) matches(o *object) bool {
	if s.all {
		return true
	}
	if s.metadata {
		if m, err := meta.Accessor(o.Object); err == nil {
			p := &s.predicate
			return p.Label.Matches(labels.Set(m.GetLabels())) && (p.Field == nil || p.Field.Matches(metaFields{m}))
		}
	}
	ok, err := s.predicate.Matches(o.Object)
	return err == nil && ok
}

// matchesEncoded is matches for an encoded object that is verbatim, if nothing but the metadata matters.
func (s *selector) matchesEncoded(raw []byte) bool {
	metadata, _, _ := protobuf.Next(raw)
	p := &s.predicate
	return p.Label.Matches(encodedLabels(metadata.Content)) && (p.Field == nil || p.Field.Matches(encodedFields(metadata.Content)))
}

// encodedLabels are the labels in encoded metadata.
type encodedLabels []byte

var _ labels.Labels = encodedLabels(nil)

// Has implements [labels.Labels].
func (l encodedLabels) Has(key string) bool {
	_, ok := l.Lookup(key)
	return ok
}

// Get implements [labels.Labels].
func (l encodedLabels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Lookup implements [labels.Labels].
func (l encodedLabels) Lookup(key string) (string, bool) {
	for rest := []byte(l); len(rest) > 0; {
		f, after, ok := protobuf.Next(rest)
		if !ok || f.Tag > tagLabels {
			break
		}
		if f.Tag == tagLabels {
			name, value, ok := protobuf.Next(f.Content)
			if ok && string(name.Content) == key {
				found, _, _ := protobuf.Next(value)
				return string(found.Content), true
			}
		}
		rest = after
	}
	return "", false
}

// encodedFields are metaFields of encoded metadata.
type encodedFields []byte

// Has implements [fields.Fields].
func (f encodedFields) Has(field string) bool { return f.Get(field) != "" }

// Get implements [fields.Fields].
func (f encodedFields) Get(field string) string {
	tag := uint64(tagNamespace)
	if field == "metadata.name" {
		tag = tagName
	}
	for rest := []byte(f); len(rest) > 0; {
		found, after, ok := protobuf.Next(rest)
		if !ok || found.Tag == tag {
			return string(found.Content)
		}
		rest = after
	}
	return ""
}

// metaFields are the fields that every object can be selected by.
type metaFields struct{ metav1.Object }

func (f metaFields) Has(field string) bool { return f.Get(field) != "" }

func (f metaFields) Get(field string) string {
	if field == "metadata.name" {
		return f.GetName()
	}
	return f.GetNamespace()
}
