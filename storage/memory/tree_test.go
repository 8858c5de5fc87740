package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"flyball.dev/storage"
)

// treeModel is the same map as a sorted slice.
type treeModel []*storage.Record

func (m treeModel) rank(key string) int {
	return sort.Search(len(m), func(i int) bool { return m[i].Key >= key })
}

func (m treeModel) put(r *storage.Record) treeModel {
	i := m.rank(r.Key)
	if i < len(m) && m[i].Key == r.Key {
		m[i] = r
		return m
	}
	return slices.Insert(m, i, r)
}

func (m treeModel) remove(key string) treeModel {
	if i := m.rank(key); i < len(m) && m[i].Key == key {
		return slices.Delete(m, i, i+1)
	}
	return m
}

// check compares all that can be asked of a tree with the model.
func (m treeModel) check(t *testing.T, n *node) {
	t.Helper()
	checkNode(t, n, true)
	if got := n.collect(nil, 0, n.len()); !slices.Equal(got, m) {
		t.Fatalf("%d records, want %d, or others", len(got), len(m))
	}
	for i, r := range m {
		if got := n.get(r.Key); got != r {
			t.Fatalf("get(%q): %v", r.Key, got)
		}
		if got := n.rank(r.Key); got != i {
			t.Fatalf("rank(%q): %d, want %d", r.Key, got, i)
		}
		if got := n.rank(r.Key + "\x00"); got != i+1 {
			t.Fatalf("rank after %q: %d, want %d", r.Key, got, i+1)
		}
	}
	for range min(len(m), 20) {
		to := rand.IntN(len(m)) + 1
		from := rand.IntN(to)
		if got := n.collect(nil, from, to); !slices.Equal(got, m[from:to]) {
			t.Fatalf("collect(%d, %d): %d records, or others", from, to, len(got))
		}
	}
}

// checkNode checks the invariants of a node and of those below it, and returns its height.
func checkNode(t *testing.T, n *node, root bool) int {
	t.Helper()
	if n == nil {
		return 0
	}
	if n.width() == 0 || n.width() >= fanout || root && !n.leaf && len(n.items) == 1 || n.records != nil && (n.items != nil || !n.leaf) {
		t.Fatalf("a node has %d items and %d records", len(n.items), len(n.records))
	}
	if got := n.count(); got != n.size {
		t.Fatalf("a node of %d records says it has %d", got, n.size)
	}
	if n.leaf {
		return 1
	}
	height := checkNode(t, n.items[0].child, false)
	for i, it := range n.items {
		records := it.child.collect(nil, 0, it.child.size)
		if records[0].Key < it.key || i > 0 && records[0].Key <= n.items[i-1].key {
			t.Fatalf("%q is below %q", records[0].Key, it.key)
		}
		if i+1 < len(n.items) && records[len(records)-1].Key >= n.items[i+1].key {
			t.Fatalf("%q is before %q", records[len(records)-1].Key, n.items[i+1].key)
		}
		if checkNode(t, it.child, false) != height {
			t.Fatal("leaves have different depths")
		}
	}
	return height
}

// TestTree grows trees to three levels and takes them apart again, in several orders, and checks that snapshots do not
// change.
func TestTree(t *testing.T) {
	const n = 10_000
	puts := map[string]func(*tree, *storage.Record){"records": (*tree).put, "items": setItem}
	for name, at := range map[string]func(i int) int{
		"ascending":  func(i int) int { return i },
		"descending": func(i int) int { return n - i },
		"scattered":  func(i int) int { return i * 7919 % n },
		"random":     func(int) int { return rand.IntN(n) },
	} {
		for kind, put := range puts {
			t.Run(name+"/"+kind, func(t *testing.T) { testTree(t, n, at, put) })
		}
	}
}

// setItem puts a record under its key as if that were another one.
func setItem(t *tree, r *storage.Record) { t.set(item{key: r.Key, record: r}) }

// testTree puts and removes n keys.
func testTree(t *testing.T, n int, at func(i int) int, put func(*tree, *storage.Record)) {
	var tr tree
	var model treeModel
	type past struct {
		root  *node
		model treeModel
	}
	var snapshots []past
	step := func(i int, change func(key string)) {
		change(fmt.Sprintf("k/%05d", at(i)))
		if i%(n/4) == n/8 {
			model.check(t, tr.root)
			snapshots = append(snapshots, past{tr.snapshot(), slices.Clone(model)})
		}
	}
	for i := range n {
		step(i, func(key string) {
			r := &storage.Record{Key: key}
			put(&tr, r)
			model = model.put(r)
		})
	}
	model.check(t, tr.root)
	for i := range n {
		step(i, func(key string) {
			tr.remove(key)
			model = model.remove(key)
		})
	}
	for _, r := range slices.Clone(model) {
		tr.remove(r.Key)
	}
	if tr.root != nil {
		t.Errorf("%d records are left", tr.root.len())
	}
	for _, s := range snapshots {
		s.model.check(t, s.root)
	}
}

// TestTreeMixed has puts, removals and snapshots in any order, with every snapshot checked in the
// end.
func TestTreeMixed(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		put := (*tree).put
		if seed%2 == 1 {
			put = setItem
		}
		var tr tree
		var model treeModel
		snapshots := map[*node]treeModel{}
		keys := 200 << random.IntN(4)
		for i := range 8000 {
			key := fmt.Sprint(random.IntN(keys))
			// Phases of growth and of decline.
			if grow := i/2000%2 == 0; grow == (random.IntN(4) > 0) {
				r := &storage.Record{Key: key}
				put(&tr, r)
				model = model.put(r)
			} else {
				tr.remove(key)
				model = model.remove(key)
			}
			if random.IntN(200) == 0 {
				if s := tr.snapshot(); s != nil {
					snapshots[s] = slices.Clone(model)
				}
			}
		}
		model.check(t, tr.root)
		for s, m := range snapshots {
			m.check(t, s)
		}
	}
}
