package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// model is a server with a history, a watch that lags behind it, and what reads must return: of
// each object the state of the last event that the watch has delivered or, if that is later, of the
// last write or live read of this process, unless that was too long ago.
type model struct {
	history []event
	// events are the positions of a key's events in the history.
	events map[Key][]int
	// delivered is the position in the history up to which the watch has delivered a key's events.
	delivered map[Key]int
	// position is the position up to which the watch has delivered all events.
	position int
	own      map[Key]known
	uids     int
}

// event is a write in the history: the object as it was then, nil if it was deleted.
type event struct {
	key Key
	obj *corev1.ConfigMap
	// last is the object in its last state if it was deleted.
	last *corev1.ConfigMap
}

// known is the position in the history up to which this process knows a key, by writes and live
// reads, and when it learned that first and last.
type known struct {
	position    int
	first, last time.Time
}

// at returns the state of a key at a position.
func (m *model) at(key Key, position int) *corev1.ConfigMap {
	events := m.events[key]
	n, _ := slices.BinarySearch(events, position)
	if n == 0 {
		return nil
	}
	return m.history[events[n-1]].obj
}

// learn records that this process knows a key up to a position.
func (m *model) learn(key Key, position int) {
	k := m.own[key]
	if position <= m.known(key) {
		k.last = time.Now()
	} else {
		k = known{position, time.Now(), time.Now()}
	}
	m.own[key] = k
}

func (m *model) known(key Key) int {
	if k := m.own[key]; time.Since(k.last) < overlayTTL {
		return k.position
	}
	return 0
}

// unsure reports whether reads of a key may return either what the watch has delivered or what this
// process knows: an overlay that was set again, or late, may expire with the first one.
func (m *model) unsure(s *Store, key Key) bool {
	k := m.own[key]
	return len(s.Invalid(key.Namespace, key.Name)) > 0 || time.Since(k.first) >= overlayTTL && time.Since(k.last) < overlayTTL
}

// selected is the selector of the store under test.
func selected(obj *corev1.ConfigMap) bool {
	return obj != nil && obj.Labels["ignore"] == ""
}

func selectedOrNil(obj *corev1.ConfigMap) client.Object {
	if selected(obj) {
		return obj
	}
	return nil
}

func (m *model) watched(key Key) *corev1.ConfigMap {
	if obj := m.at(key, m.delivered[key]); selected(obj) {
		return obj
	}
	return nil
}

func (m *model) visible(key Key) *corev1.ConfigMap {
	if obj := m.at(key, max(m.delivered[key], m.known(key))); selected(obj) {
		return obj
	}
	return nil
}

// write appends a random event to the history and returns its position.
func (m *model) write(r *rand.Rand, key Key) int {
	now := m.at(key, len(m.history))
	version := strconv.Itoa(len(m.history) + 1)
	s := event{key: key}
	switch {
	case now != nil && r.IntN(3) == 0:
		s.last = now.DeepCopy()
		s.last.ResourceVersion = version
	case now == nil:
		m.uids++
		s.obj = &corev1.ConfigMap{}
		s.obj.Namespace, s.obj.Name = key.Namespace, key.Name
		s.obj.UID = types.UID(fmt.Sprint("uid-", m.uids))
	default:
		s.obj = now.DeepCopy()
	}
	if s.obj != nil {
		s.obj.ResourceVersion = version
		s.obj.Labels = map[string]string{"app": fmt.Sprint(r.IntN(5)), "unique": version}
		if r.IntN(4) == 0 {
			s.obj.Labels["ignore"] = "yes"
		}
		s.obj.Data = map[string]string{"size": fmt.Sprint(r.IntN(3)), "version": version}
	}
	m.events[key] = append(m.events[key], len(m.history))
	m.history = append(m.history, s)
	return len(m.history)
}

var keys = func() (keys []Key) {
	for i := range 256 {
		keys = append(keys, Key{Namespace: fmt.Sprint("ns-", i%4), Name: fmt.Sprint("name-", i/4)})
	}
	return keys
}()

// run drives a store and the model through a random history and compares. If it is full, it has all objects at first. Then it has enough
// objects for indexes of labels, and otherwise it has too few. It reports whether there was one.
func run(t *testing.T, seed uint64, steps int, sharing Sharing, full bool) (indexed bool) {
	r := rand.New(rand.NewPCG(seed, 0))
	m := &model{events: map[Key][]int{}, delivered: map[Key]int{}, own: map[Key]known{}}
	s := New(sharing)
	c := s.Scope("")
	if err := s.AddIndex("size", func(obj client.Object) []string {
		return []string{obj.(*corev1.ConfigMap).Data["size"]}
	}); err != nil {
		t.Fatal(err)
	}
	// handled are the objects that a handler has after the notifications it was passed.
	handled := map[Key]client.Object{}
	handle := func(c Change) {
		switch {
		case c.New != nil:
			key := c.New.Key
			if (handled[key] == nil) != (c.Old == nil) {
				t.Fatalf("update of %s from %v, but the handler has %v", key, c.Old, handled[key])
			}
			if c.Old != nil && !reflect.DeepEqual(c.Old.Object(), handled[key]) {
				t.Fatalf("update of %s from %v, but the handler has %v", key, c.Old.Object(), handled[key])
			}
			handled[key] = c.New.Object()
		case c.Old != nil:
			if handled[c.Old.Key] == nil {
				t.Fatalf("deletion of %s, which the handler does not have", c.Old.Key)
			}
			delete(handled, c.Old.Key)
		}
	}
	list := func(upTo int) {
		c.Begin()
		breakOff := -1
		if r.IntN(3) == 0 {
			breakOff = r.IntN(len(keys))
		}
		for i, key := range keys {
			if i == breakOff {
				return
			}
			if obj := m.at(key, upTo); selected(obj) {
				handle(c.Listed(obj))
				m.delivered[key] = upTo
			}
		}
		for _, obj := range c.Complete(strconv.Itoa(upTo)) {
			handle(Change{Old: obj})
		}
		for _, key := range keys {
			m.delivered[key] = upTo
		}
		m.position = upTo
	}
	watch := func() {
		st := m.history[m.position]
		before := m.at(st.key, m.position)
		m.position++
		for _, key := range keys {
			m.delivered[key] = max(m.delivered[key], m.position)
		}
		version := strconv.Itoa(m.position)
		switch {
		case selected(st.obj):
			handle(c.Changed(st.obj))
			// What follows may find the object packed or not.
			if r.IntN(2) == 0 {
				defer c.Pack()
			} else {
				c.Pack()
			}
			if r.IntN(10) == 0 {
				handle(c.Changed(st.obj))
			}
		case selected(before):
			last := before.DeepCopy()
			last.ResourceVersion = version
			handle(c.Deleted(last))
		case r.IntN(2) == 0:
			c.Progress(version)
		default:
			// Nothing reports the progress of the watch.
		}
	}
	if full {
		for _, key := range keys {
			m.write(r, key)
		}
		list(len(m.history))
	}
	// An aborted list leaves some keys ahead, so a list must follow.
	inStep := func() bool {
		for _, position := range m.delivered {
			if position != m.position {
				return false
			}
		}
		return true
	}
	// answers are the answers to writes and reads that have not arrived yet.
	var answers []func()
	for range steps {
		key := keys[r.IntN(len(keys))]
		switch op := r.IntN(24); {
		case op < 8:
			m.write(r, key)
		case op < 13:
			answer := m.answer(r, s, key, m.write(r, key))
			if r.IntN(4) == 0 {
				answers = append(answers, answer)
			} else {
				answer()
			}
		case op < 19:
			if m.position < len(m.history) && inStep() {
				watch()
			}
		case op < 20:
			// Lists are consistent, so none is older than the one before.
			from := m.position
			for _, position := range m.delivered {
				from = max(from, position)
			}
			list(from + r.IntN(len(m.history)-from+1))
		case op < 21:
			time.Sleep(time.Duration(r.Int64N(int64(overlayTTL))))
		case op < 23:
			for _, v := range s.Invalid(key.Namespace, "") {
				// The server answers at once, but the answer may be late.
				position := len(m.history)
				obj := selectedOrNil(m.at(v.Key, position))
				answers = append(answers, func() {
					s.Revalidated(v, obj, uint64(position))
					m.learn(v.Key, position)
				})
			}
		default:
			for len(answers) > 0 {
				i := r.IntN(len(answers))
				answers[i]()
				answers = slices.Delete(answers, i, i+1)
			}
		}
		compareAll(t, r, s, m, handled)
		compareQuery(t, r, s, m)
	}
	indexed = len(s.indexes.labels) > 0
	// No overlay lasts for ever, whatever the watch delivers.
	time.Sleep(overlayTTL)
	compareAll(t, r, s, m, handled)
	s.records.all(func(r *record) {
		if r.overlay != nil || r.visible != r.watched {
			t.Errorf("%s still has an overlay", r.key)
		}
	})
	if pending := len(s.invalid.byKey) + len(s.deletions.items) + len(s.invalid.unbounded.items) + len(c.overlays.items) + len(c.invalid.items); pending > 0 || s.deadlines.earliest.Load() != 0 {
		t.Errorf("%d overlays and invalidations are left", pending)
	}
	return indexed
}

// answer returns a function that reports the answer to a write, which contains all or only a part
// of the state after the write.
func (m *model) answer(r *rand.Rand, s *Store, key Key, position int) func() {
	st, before := m.history[position-1], m.at(key, position-1)
	kind := r.IntN(6)
	return func() {
		switch {
		case kind == 0:
			s.Invalidate(key, 0)
		case kind < 3 && before != nil && (st.obj == nil || st.obj.Labels["ignore"] != ""):
			// It was deleted, or the server goes on to delete it.
			s.InvalidateDeleted(key, before.UID, uint64(position-1))
		case kind == 3 && st.obj == nil && s.records.get(key) != nil:
			s.Deleted(key, st.last.UID, 0)
		case st.obj == nil:
			s.Deleted(key, st.last.UID, uint64(position-1))
		case kind == 4:
			s.Invalidate(key, uint64(position))
		case selected(st.obj):
			s.Wrote(st.obj)
		default:
			s.Absent(key, uint64(position))
		}
		m.learn(key, position)
	}
}

func compareAll(t *testing.T, r *rand.Rand, s *Store, m *model, handled map[Key]client.Object) {
	t.Helper()
	for _, key := range keys {
		if !m.unsure(s, key) {
			same(t, key, "visible", get(s, key, false), m.visible(key))
		}
		same(t, key, "watched", get(s, key, true), m.watched(key))
	}
	if key := keys[r.IntN(len(keys))]; get(s, key, false) != nil {
		shared(t, s, key, get(s, key, false).(*corev1.ConfigMap))
	}
	watched := s.Watched()
	if len(watched) != len(handled) {
		t.Fatalf("%d objects are watched, but the handler has %d", len(watched), len(handled))
	}
	for _, n := range watched {
		if !reflect.DeepEqual(handled[n.Key], n.Object()) {
			t.Fatalf("the handler does not have the watched state of %s", n.Key)
		}
	}
}

// get returns a copy of an object or nil.
func get(s *Store, key Key, watched bool) client.Object {
	if o, ok := s.Get(key, watched); ok {
		return o.Copy()
	}
	return nil
}

// shared reads an object to be shared, twice.
func shared(t *testing.T, s *Store, key Key, want *corev1.ConfigMap) {
	t.Helper()
	o, _ := s.Get(key, false)
	one := o.Shared()
	same(t, key, "shared", one, want)
	o, _ = s.Get(key, false)
	if (o.Shared() == one) != (s.sharing != ShareNone) {
		t.Fatalf("%s is shared, or is not, against the setting", key)
	}
}

func same(t *testing.T, key Key, side string, got client.Object, want *corev1.ConfigMap) {
	t.Helper()
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil || !reflect.DeepEqual(got, client.Object(want)):
		t.Fatalf("%s %s: got %v, want %v", side, key, got, want)
	}
}

// compareQuery lists by a random query and compares with going through all.
func compareQuery(t *testing.T, r *rand.Rand, s *Store, m *model) {
	t.Helper()
	q := Query{Watched: r.IntN(4) == 0}
	if r.IntN(2) == 0 {
		q.Namespace = fmt.Sprint("ns-", r.IntN(5))
	}
	selectors := []string{"", "app=1", "app in (1,2,7)", "app notin (1)", "unique", "app=1,app!=2", "unique=" + fmt.Sprint(len(m.history))}
	var err error
	if q.Labels, err = labels.Parse(selectors[r.IntN(len(selectors))]); err != nil {
		t.Fatal(err)
	}
	size := fmt.Sprint(r.IntN(4))
	bySize := r.IntN(2) == 0
	if bySize {
		q.Fields = fields.OneTermEqualSelector("size", size).Requirements()
	}
	objs, err := s.List(q)
	if err != nil {
		t.Fatal(err)
	}
	got := map[Key]client.Object{}
	for _, obj := range objs {
		got[*obj.key] = obj.Copy()
	}
	if len(got) != len(objs) {
		t.Fatalf("%v lists an object twice", q)
	}
	for _, key := range keys {
		want := m.visible(key)
		if q.Watched {
			want = m.watched(key)
		} else if m.unsure(s, key) {
			continue
		}
		if want != nil && (q.Namespace != "" && q.Namespace != key.Namespace ||
			bySize && want.Data["size"] != size || !q.Labels.Matches(labels.Set(want.Labels))) {
			want = nil
		}
		same(t, key, fmt.Sprintf("by query %v", q), got[key], want)
	}
	if !slices.IsSortedFunc(objs, func(a, b Object) int { return compare(a.key, b.key) }) {
		t.Fatal("a list is out of order")
	}
}

func TestAgainstModel(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			full := seed%2 == 0
			if indexed := run(t, seed, 400, Sharing(seed%3), full); indexed != full {
				t.Errorf("seed %d: labels are indexed: %v", seed, indexed)
			}
		})
	}
}

func FuzzAgainstModel(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { run(t, seed, 400, Sharing(seed%3), seed%2 == 0) })
	})
}

func object(name, uid string, version int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version),
	}}
}

func key(name string) Key { return Key{Namespace: "ns", Name: name} }

// An overlay that the watch never confirms, as of an object that does not match the selector, is
// dropped once the watch has passed its version.
func TestOverlaysAreDropped(t *testing.T) {
	s := New(ShareOnDemand)
	c := s.Scope("")
	c.Begin()
	c.Complete("1")
	for i := range 1000 {
		s.Wrote(object(fmt.Sprint(i), "u", i+2))
	}
	if got := get(s, key("7"), false); got == nil {
		t.Fatal("a write is not visible")
	}
	c.Progress("1000")
	if got := get(s, key("7"), false); got != nil {
		t.Fatalf("got %v after the watch has passed it", got)
	}
	c.Progress("1001")
	if s.records.count != 0 || len(s.records.namespaces) != 0 || len(c.overlays.items) != 0 {
		t.Fatalf("%d records in %d namespaces and %d overlays are left", s.records.count, len(s.records.namespaces), len(c.overlays.items))
	}
}

// A shared value is kept until it has not been read for a while.
func TestSharedValuesAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(ShareOnDemand)
		c := s.Scope("")
		c.Changed(object("a", "u", 1))
		c.Pack()
		ask := func() client.Object {
			o, _ := s.Get(key("a"), false)
			return o.Shared()
		}
		pass := func() {
			c.Progress("2")
			time.Sleep(evictSharedAfter)
			c.Progress("2")
		}
		first := ask()
		for range 3 {
			pass()
			if ask() != first {
				t.Fatal("a value that is read was evicted")
			}
		}
		pass()
		pass()
		if r := s.records.get(key("a")).watched; r.decoded.Load() != nil || s.eviction.anyShared.Load() {
			t.Fatal("a value that is not read was not evicted")
		}
	})
}

// Deletions that the watch has confirmed are not kept until their deadline.
func TestConfirmedDeletionsArePruned(t *testing.T) {
	s := New(ShareOnDemand)
	c := s.Scope("")
	for i := range 1000 {
		name, uid, version := fmt.Sprint(i), fmt.Sprint("uid-", i), 2*i+1
		c.Changed(object(name, uid, version))
		s.Deleted(key(name), types.UID(uid), uint64(version))
		c.Deleted(object(name, uid, version+1))
	}
	if got := len(s.deletions.items); got > 2 {
		t.Errorf("%d deletions are queued", got)
	}
	for i := range 1000 {
		name, uid, version := fmt.Sprint(i), fmt.Sprint("new-", i), 5000+2*i
		c.Changed(object(name, uid, version))
		s.InvalidateDeleted(key(name), types.UID(uid), uint64(version))
		c.Deleted(object(name, uid, version+1))
	}
	if got := len(s.invalid.unbounded.items); got > 2 {
		t.Errorf("%d invalidations are queued", got)
	}
}

// A deletion that the watch never confirms is dropped at its deadline.
func TestDeletionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(ShareOnDemand)
		c := s.Scope("")
		c.Changed(object("a", "u", 1))
		s.Deleted(key("a"), "u", 1)
		s.Deleted(key("b"), "v", 3)
		c.Progress("2")
		if get(s, key("a"), false) != nil {
			t.Fatal("a deleted object is visible")
		}
		time.Sleep(overlayTTL)
		c.Progress("2")
		if get(s, key("a"), false) == nil {
			t.Fatal("an object that the watch has not deleted is hidden for ever")
		}
		if s.records.count != 1 || len(s.deletions.items) != 0 {
			t.Fatalf("%d records and %d deletions are left", s.records.count, len(s.deletions.items))
		}
	})
}

// A deletion hides the object with its UID, and no other one with that name.
func TestDeletionOfAnotherObject(t *testing.T) {
	for _, tt := range []struct {
		name    string
		uid     types.UID
		version uint64
		hidden  bool
		invalid int
	}{
		{"this one", "u", 0, true, 0},
		{"an earlier one", "before", 9, false, 0},
		{"a later one", "after", 11, true, 0},
		{"an earlier or a later one", "other", 0, false, 1},
		{"an unknown one", "", 10, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(ShareOnDemand)
			c := s.Scope("")
			c.Changed(object("a", "u", 10))
			s.Deleted(key("a"), tt.uid, tt.version)
			if hidden := get(s, key("a"), false) == nil; hidden != tt.hidden || len(s.Invalid("ns", "a")) != tt.invalid {
				t.Errorf("hidden: %t, invalid: %d", hidden, len(s.Invalid("ns", "a")))
			}
		})
	}
}

func TestOpaqueVersionsAreNotOverlaid(t *testing.T) {
	s := New(ShareOnDemand)
	c := s.Scope("")
	obj := object("a", "u", 1)
	obj.ResourceVersion = "alpha"
	c.Changed(obj)
	later := obj.DeepCopy()
	later.ResourceVersion = "beta"
	s.Wrote(later)
	if got := get(s, key("a"), false); !reflect.DeepEqual(got, client.Object(obj)) {
		t.Fatalf("got %v", got)
	}
	if c := c.Changed(later); c.New.Object() != client.Object(later) {
		t.Fatalf("got %v", c)
	}
}

// After the server's data was restored from a backup, resource versions are lower.
func TestServerGoesBackInTime(t *testing.T) {
	s := New(ShareOnDemand)
	c := s.Scope("")
	c.Changed(object("a", "u", 100))
	s.Wrote(object("a", "u", 101))
	s.Wrote(object("b", "u", 102))
	c.Begin()
	c.Listed(object("a", "u", 50))
	c.Complete("60")
	if got := get(s, key("a"), false); got.GetResourceVersion() != "50" {
		t.Fatalf("got %v", got)
	}
	if got := get(s, key("b"), false); got != nil {
		t.Fatalf("got %v", got)
	}
	s.Wrote(object("a", "u", 61))
	if got := get(s, key("a"), false); got.GetResourceVersion() != "61" {
		t.Fatalf("got %v", got)
	}
}

// Each scope has a list and watch of its own.
func TestScopes(t *testing.T) {
	s := New(ShareOnDemand)
	rest, own := s.Scope(""), s.Scope("ns")
	elsewhere := object("a", "u", 1)
	elsewhere.Namespace = "elsewhere"
	rest.Changed(elsewhere)
	own.Changed(object("a", "v", 2))
	rest.Begin()
	if gone := rest.Complete("3"); len(gone) != 1 || !reflect.DeepEqual(gone[0].Object(), client.Object(elsewhere)) {
		t.Fatalf("gone: %v", gone)
	}
	if get(s, key("a"), false) == nil {
		t.Fatal("the list of one scope removed an object of another")
	}
	s.Wrote(object("b", "w", 4))
	rest.Progress("5")
	if get(s, key("b"), false) == nil {
		t.Fatal("the progress of one scope ended a write in another")
	}
	only := New(ShareOnDemand)
	only.Scope("ns")
	if !only.Covers("ns") || only.Covers("other") || !s.Covers("other") {
		t.Fatal("Covers does not report the namespaces of the scopes")
	}
}

func TestSet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	records := make([]*record, 30)
	for i := range records {
		records[i] = &record{}
	}
	s, model := &set{}, map[*record]bool{}
	for range 5000 {
		e := records[r.IntN(len(records))]
		if r.IntN(2) == 0 {
			s.add(e)
			model[e] = true
		} else {
			s.remove(e)
			delete(model, e)
		}
		if s.has(e) != model[e] || s.len() != len(model) {
			t.Fatal("the set differs from the model")
		}
		all := map[*record]bool{}
		s.each(func(member *record) { all[member] = true })
		if !maps.Equal(all, model) {
			t.Fatal("each does not visit the members")
		}
	}
}

func TestQueue(t *testing.T) {
	var q queue[int]
	next, want := 0, 0
	r := rand.New(rand.NewPCG(3, 4))
	for range 10000 {
		if r.IntN(2) == 0 {
			q.push(next)
			next++
		} else if got, ok := q.peek(); ok {
			if got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
			q.pop()
			want++
		} else if want != next {
			t.Fatal("the queue has lost an item")
		}
	}
}

// A transform may remove the resource version. Then a list always replaces the object.
func TestListsWithoutVersions(t *testing.T) {
	s := New(ShareOnDemand)
	c := s.Scope("")
	for _, value := range []string{"1", "2"} {
		obj := object("a", "u", 0)
		obj.ResourceVersion = ""
		obj.Data = map[string]string{"value": value}
		c.Begin()
		c.Listed(obj)
		c.Complete("10")
		if got, ok := s.Get(key("a"), false); !ok || got.Copy().(*corev1.ConfigMap).Data["value"] != value {
			t.Errorf("the list has %s, the store %v", value, got.Copy())
		}
	}
}

// A transform may remove the UID. Then only the server knows whether the object that was deleted is
// the visible one.
func TestDeletionsWithoutUIDs(t *testing.T) {
	for name, deleted := range map[string]func(*Store){
		"deleted":  func(s *Store) { s.Deleted(key("a"), "u", 5) },
		"deleting": func(s *Store) { s.InvalidateDeleted(key("a"), "u", 4) },
	} {
		t.Run(name, func(t *testing.T) {
			s := New(ShareOnDemand)
			c := s.Scope("")
			c.Changed(object("a", "", 5))
			deleted(s)
			invalid := s.Invalid("ns", "a")
			if len(invalid) != 1 {
				t.Fatalf("got %v", invalid)
			}
			s.Revalidated(invalid[0], nil, 6)
			if got := get(s, key("a"), false); got != nil {
				t.Errorf("got %v", got)
			}
			c.Deleted(object("a", "", 6))
			c.Changed(object("a", "", 7))
			if got := get(s, key("a"), false); got == nil {
				t.Error("the new object is not visible")
			}
		})
	}
}
