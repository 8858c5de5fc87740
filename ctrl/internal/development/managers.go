package development

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// managerOfChange returns the field manager of the last write between two states of an object, or ""
// if the managed fields do not show it.
func managerOfChange(before, after metav1.Object) string {
	entries := after.GetManagedFields()
	manager := ""
	for i := range entries {
		if !updated(before.GetManagedFields(), &entries[i]) {
			continue
		}
		if manager != "" && manager != entries[i].Manager {
			return newest(entries)
		}
		manager = entries[i].Manager
	}
	if manager == "" {
		return newest(entries)
	}
	return manager
}

// updated reports whether an entry shows a write since the entries before: it is new or later, or has
// fields that it did not have.
func updated(before []metav1.ManagedFieldsEntry, entry *metav1.ManagedFieldsEntry) bool {
	for i := range before {
		b := &before[i]
		if b.Manager != entry.Manager || b.Operation != entry.Operation ||
			b.Subresource != entry.Subresource || b.APIVersion != entry.APIVersion {
			continue
		}
		if !b.Time.Equal(entry.Time) {
			return true
		}
		return !fieldsOf(entry).Difference(fieldsOf(b)).Empty()
	}
	return true
}

// newest returns the manager of the latest entry, or "" if two managers have entries of that time,
// which is in seconds.
func newest(entries []metav1.ManagedFieldsEntry) string {
	var last *metav1.ManagedFieldsEntry
	ambiguous := false
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Time == nil:
		case last == nil || last.Time.Before(e.Time):
			last, ambiguous = e, false
		case last.Time.Equal(e.Time) && last.Manager != e.Manager:
			ambiguous = true
		}
	}
	if last == nil || ambiguous {
		return ""
	}
	return last.Manager
}

// fieldsOf returns the fields of an entry, which are none if they cannot be read.
func fieldsOf(entry *metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := &fieldpath.Set{}
	if entry.FieldsV1 == nil || set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
		return &fieldpath.Set{}
	}
	return set
}

// managersOf returns the managers of the fields at or below a path.
func managersOf(entries []metav1.ManagedFieldsEntry, path fieldpath.Path) (managers []string) {
	for i := range entries {
		if set := fieldsOf(&entries[i]); set.Has(path) || !below(set, path).Empty() {
			managers = append(managers, entries[i].Manager)
		}
	}
	return managers
}

// below returns the part of a set below a path.
func below(set *fieldpath.Set, path fieldpath.Path) *fieldpath.Set {
	for _, element := range path {
		set = set.WithPrefix(element)
	}
	return set
}
