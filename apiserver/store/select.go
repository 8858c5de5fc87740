package store

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apistorage "k8s.io/apiserver/pkg/storage"
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

// metaFields are the fields that every object can be selected by.
type metaFields struct{ metav1.Object }

func (f metaFields) Has(field string) bool { return f.Get(field) != "" }

func (f metaFields) Get(field string) string {
	if field == "metadata.name" {
		return f.GetName()
	}
	return f.GetNamespace()
}
