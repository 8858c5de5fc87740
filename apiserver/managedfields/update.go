package managedfields

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// maxUpdaters is the maximum number of update entries of an object. If there are more, the field manager merges the
// oldest.
const maxUpdaters = 10

// serverFields is the set of fields without a manager.
var serverFields = func() *fieldpath.Set {
	set := fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
		fieldpath.MakePathOrDie("metadata"))
	for _, name := range serverMetadata {
		set.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	return set
}()

// updates sets the managed fields after updates of existing objects. It does not depend on the representation of
// objects; only compare does.
type updates struct {
	identity   *identity
	apiVersion string
	filter     fieldpath.Filter // removes the fields that the strategy resets; nil if there are none
	// compare returns the fields in which two objects differ. It may leave out serverFields and the fields that filter
	// removes.
	compare func(old, obj metav1.Object) (*typed.Comparison, error)
	// current reports whether a field set fits the schema, so that it need not be migrated.
	current func(*fieldpath.Set) bool
}

// update implements [Updater.Update] for an update of old.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.FieldManager.Update
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.managedFieldsUpdater.Update
//upstream:sigs.k8s.io/structured-merge-diff/v6/merge.Updater.Update
func (u *updates) update(old, obj metav1.Object, w Write) bool {
	if w.Operation != metav1.ManagedFieldsOperationUpdate || w.Manager == "" || old.GetUID() == "" {
		return false
	}
	list := entriesOf(obj)
	switch {
	case w.Subresource != "" || list.entries == nil:
		list = entriesOf(old)
	case len(list.entries) == 0:
		return false // resets them
	}
	sets, ok := u.sets(list.entries)
	if !ok {
		return false
	}
	difference, err := u.compare(old, obj)
	if err != nil {
		return false
	}
	if u.filter != nil {
		difference = difference.FilterFields(u.filter)
	}
	entries, ok := u.transfer(list.entries, sets, difference, w)
	if ok {
		list.set(obj, entries)
	}
	return ok
}

// sets returns the field set of each entry. It returns false if there are no entries, because the field manager does
// not track such an object, or if the field manager has to convert, migrate, normalize or merge entries.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.DecodeManagedFields
func (u *updates) sets(entries []metav1.ManagedFieldsEntry) ([]*fieldpath.Set, bool) {
	updaters := 0
	sets := make([]*fieldpath.Set, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.APIVersion != u.apiVersion || e.FieldsType != fieldsType || e.FieldsV1 == nil || e.Manager == "" {
			return nil, false
		}
		switch e.Operation {
		case metav1.ManagedFieldsOperationUpdate:
			updaters++
		case metav1.ManagedFieldsOperationApply:
		default:
			return nil, false
		}
		if slices.ContainsFunc(entries[:i], func(other metav1.ManagedFieldsEntry) bool { return sameManager(&other, e) }) {
			return nil, false
		}
		if sets[i] = decoded.get(u, e.FieldsV1.GetRawString()); sets[i] == nil {
			return nil, false
		}
	}
	return sets, len(entries) > 0 && updaters < maxUpdaters
}

// transfer returns the entries after a write. The manager of the write owns the changed and added fields, and other
// managers lose them. Removed fields have no owner.
//
//upstream:sigs.k8s.io/structured-merge-diff/v6/merge.Updater.update
func (u *updates) transfer(entries []metav1.ManagedFieldsEntry, sets []*fieldpath.Set, difference *typed.Comparison,
	w Write) ([]metav1.ManagedFieldsEntry, bool) {
	written := union(difference.Modified, difference.Added)
	lost := union(written, difference.Removed)
	own := owned(written)
	owner := w.owner(u.apiVersion, nil)
	out := make([]metav1.ManagedFieldsEntry, 0, len(entries)+1)
	for i := range entries {
		set := sets[i]
		taken := without(set, lost)
		switch {
		case sameManager(&entries[i], &owner) && !own.Empty():
			if includes(set, own) && !overlap(set, difference.Removed) {
				owner.FieldsV1 = entries[i].FieldsV1 // owns it already
				continue
			}
			own = own.Union(taken)
		case taken.Empty():
		case taken == set:
			out = append(out, entries[i])
		default:
			entry := entries[i]
			if !u.encode(&entry, taken) {
				return nil, false
			}
			out = append(out, entry)
		}
	}
	if !own.Empty() {
		if owner.FieldsV1.GetRawString() == "" && !u.encode(&owner, own) {
			return nil, false
		}
		out = append(out, owner)
	}
	slices.SortFunc(out, compareEntries)
	if len(out) == 0 {
		out = nil
	}
	return out, true
}

// union returns the union of two sets. The result may be one of the sets.
func union(a, b *fieldpath.Set) *fieldpath.Set {
	switch {
	case a.Empty():
		return b
	case b.Empty():
		return a
	default:
		return a.Union(b)
	}
}

// without returns the fields of set that are not in others. It returns set itself if the sets have no common field.
func without(set, others *fieldpath.Set) *fieldpath.Set {
	if !overlap(set, others) {
		return set
	}
	return set.Difference(others)
}

// owned returns the fields of a set that can have a manager.
func owned(set *fieldpath.Set) *fieldpath.Set {
	if !overlap(serverFields, set) {
		return set
	}
	return set.Difference(serverFields)
}

// overlap reports whether the sets have a common field. few is the smaller set. The iterators of a set do not support that
// the loop ends early.
func overlap(set, few *fieldpath.Set) (found bool) {
	for at := range few.Members.All() {
		found = found || set.Members.Has(at)
	}
	if found {
		return true
	}
	for at := range few.Children.All() {
		part, _ := few.Children.Get(at)
		below, ok := set.Children.Get(at)
		found = found || ok && overlap(below, part)
	}
	return found
}

// includes reports whether set has all fields of few.
func includes(set, few *fieldpath.Set) bool {
	missing := false
	for at := range few.Members.All() {
		missing = missing || !set.Members.Has(at)
	}
	for at := range few.Children.All() {
		part, _ := few.Children.Get(at)
		below, ok := set.Children.Get(at)
		missing = missing || !part.Empty() && (!ok || !includes(below, part))
	}
	return !missing
}

// encode sets the fields of an entry.
func (u *updates) encode(entry *metav1.ManagedFieldsEntry, set *fieldpath.Set) bool {
	fields, err := set.ToJSON()
	if err != nil {
		return false
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(fields))
	return true
}

// sameManager reports whether two entries belong to the same manager. For applies, the API version does not matter.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.BuildManagerIdentifier
func sameManager(a, b *metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource
}

// compareEntries orders entries like the field manager, which compares times in seconds.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.sortEncodedManagedFields
func compareEntries(a, b metav1.ManagedFieldsEntry) int {
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(seconds(a.Time), seconds(b.Time)),
		cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Subresource, b.Subresource))
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}
