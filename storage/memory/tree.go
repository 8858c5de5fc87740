package memory

import (
	"slices"

	"flyball.dev/storage"
)

// A node has fewer than fanout items. When a deletion leaves fewer than minItems, the tree merges the node with a
// sibling or moves items between the two.
const (
	fanout   = 64
	minItems = fanout / 4
	// A node has room for smallNode items or for a multiple of step. Room for fanout items would be a third of the memory of
	// the trees of a large store, and most of the memory of an index with many values.
	smallNode, step = 4, 8
)

// tree is an ordered map of records by key: a copy-on-write B+ tree that is also an order-statistic tree, so that
// finding the rank of a key takes logarithmic time. Taking a snapshot takes constant time; afterwards the first change
// of each node copies it. The zero value is an empty tree. Only one goroutine may use a tree at a time. Snapshots never
// change, and any goroutine may read them.
type tree struct {
	root  *node
	owner *owner
}

// owner is the identity of a tree between two snapshots. Only nodes with the tree's owner are
// changed in place; others may be part of a snapshot.
type owner struct{ _ byte }

// node is a leaf or an inner node, with children as items. All leaves have the same depth. A nil node is an empty tree.
type node struct {
	owner *owner
	leaf  bool
	size  int // number of records in the subtree
	items []item
	// records are what a leaf has instead of items if the tree has records under their own keys. They take a quarter of the
	// memory, and a tree has no other leaves then.
	records []*storage.Record
}

// item is a record under a key that is not its own, or a child with a lower bound of its keys. The lower bound is greater than all
// keys of the items before. In the tree of an index, an item of a leaf is a value with the root of another tree as its child.
type item struct {
	key    string
	record *storage.Record
	child  *node
}

// snapshot returns the present root, which is immutable from then on.
func (t *tree) snapshot() *node {
	t.owner = nil
	return t.root
}

// mutable returns a node that may be changed: n, or a copy of it.
func (t *tree) mutable(n *node) *node {
	if t.owner == nil {
		t.owner = &owner{}
	}
	if n.owner == t.owner {
		return n
	}
	return &node{owner: t.owner, leaf: n.leaf, size: n.size, items: withRoom(n.items), records: withRoom(n.records)}
}

// withRoom returns a copy of the items or records of a node, with room for one more, or nil for nil.
func withRoom[T any](all []T) []T {
	if all == nil {
		return nil
	}
	room := smallNode
	if len(all) >= smallNode {
		room = min((len(all)/step+1)*step, fanout)
	}
	return append(make([]T, 0, room), all...)
}

// inserted returns the items or records of an owned node with one more.
func inserted[T any](all []T, i int, one T) []T {
	if len(all) == cap(all) {
		all = withRoom(all)
	}
	return slices.Insert(all, i, one)
}

// cut returns the first i items or records of an owned node, and a copy of the others.
func cut[T any](all []T, i int) (left, right []T) {
	if all == nil {
		return nil, nil
	}
	right = withRoom(all[i:])
	clear(all[i:])
	if left = all[:i]; i < fanout-1 {
		left = withRoom(left)
	}
	return left, right
}

// width returns the number of items or records.
func (n *node) width() int { return len(n.items) + len(n.records) }

// key returns the key of an item or record.
func (n *node) key(i int) string {
	if n.records != nil {
		return n.records[i].Key
	}
	return n.items[i].key
}

// record returns the record of an item of a leaf.
func (n *node) record(i int) *storage.Record {
	if n.records != nil {
		return n.records[i]
	}
	return n.items[i].record
}

// add adds an item, or its record, to an owned node.
func (n *node) add(i int, it item) {
	if n.records != nil {
		n.records = inserted(n.records, i, it.record)
	} else {
		n.items = inserted(n.items, i, it)
	}
}

// replace replaces an item of an owned leaf, or its record.
func (n *node) replace(i int, it item) {
	if n.records != nil {
		n.records[i] = it.record
	} else {
		n.items[i] = it
	}
}

// drop removes an item or record of an owned node.
func (n *node) drop(i int) {
	if n.records != nil {
		n.records = slices.Delete(n.records, i, i+1)
	} else {
		n.items = slices.Delete(n.items, i, i+1)
	}
}

func (n *node) count() int {
	if n.leaf {
		return n.width()
	}
	size := 0
	for i := range n.items {
		size += n.items[i].child.size
	}
	return size
}

// put adds a record under its key, or replaces the current one. The tree has no other items.
func (t *tree) put(r *storage.Record) {
	if t.root == nil {
		t.root = &node{leaf: true, records: make([]*storage.Record, 0, smallNode)}
	}
	t.place(item{key: r.Key, record: r})
}

// set adds an item of a leaf, or replaces the current one with its key. The tree has no records without one.
func (t *tree) set(it item) {
	if t.root == nil {
		t.root = &node{leaf: true, items: make([]item, 0, smallNode)}
	}
	t.place(it)
}

// place adds an item or its record to a tree with a root.
func (t *tree) place(it item) {
	root := t.mutable(t.root)
	_, right := t.insert(root, it)
	if right != nil {
		left := item{key: root.key(0), child: root}
		root = &node{owner: t.owner, size: root.size + right.size, items: append(make([]item, 0, smallNode), left, item{key: right.key(0), child: right})}
	}
	t.root = root
}

// insert puts an item in a leaf at or below an owned node, and reports whether the key is new. If the node becomes full,
// insert moves its upper part to a new node and returns it.
func (t *tree) insert(n *node, new item) (added bool, right *node) {
	i := n.search(new.key)
	if n.leaf {
		if i > 0 && n.key(i-1) == new.key {
			n.replace(i-1, new)
			return false, nil
		}
		n.add(i, new)
		added = true
	} else {
		i = max(i-1, 0)
		it := &n.items[i]
		it.key = min(it.key, new.key)
		it.child = t.mutable(it.child)
		if added, right = t.insert(it.child, new); right != nil {
			i++
			n.add(i, item{key: right.key(0), child: right})
		}
	}
	if added {
		n.size++
	}
	if n.width() < fanout {
		return added, nil
	}
	if i == fanout-1 {
		return added, t.split(n, i) // so that keys in ascending order leave full nodes behind
	}
	return added, t.split(n, fanout/2)
}

// split moves the items of a node from index i on to a new node.
func (t *tree) split(n *node, i int) *node {
	right := &node{owner: t.owner, leaf: n.leaf}
	n.items, right.items = cut(n.items, i)
	n.records, right.records = cut(n.records, i)
	right.size = right.count()
	n.size -= right.size
	return right
}

// remove deletes the item of a leaf under key, if there is one.
func (t *tree) remove(key string) {
	if !t.root.has(key) {
		return
	}
	root := t.mutable(t.root)
	t.delete(root, key)
	for !root.leaf && len(root.items) == 1 {
		root = root.items[0].child
	}
	if t.root = root; root.width() == 0 {
		t.root = nil
	}
}

// delete removes the item under key, which is in a leaf at or below an owned node.
func (t *tree) delete(n *node, key string) {
	n.size--
	i := max(n.search(key)-1, 0)
	if n.leaf {
		n.drop(i)
		return
	}
	below := t.mutable(n.items[i].child)
	n.items[i].child = below
	t.delete(below, key)
	switch {
	case below.width() == 0:
		n.drop(i)
	case below.width() < minItems && len(n.items) > 1:
		t.merge(n, max(i-1, 0))
	}
}

// merge makes one node of the children at i and i+1, or two nodes of equal size if their items do not fit in one.
func (t *tree) merge(n *node, i int) {
	left, right := t.mutable(n.items[i].child), n.items[i+1].child
	left.items = append(left.items, right.items...)
	left.records = append(left.records, right.records...)
	left.size += right.size
	n.items[i].child = left
	if left.width() < fanout {
		n.drop(i + 1)
		return
	}
	right = t.split(left, left.width()/2)
	n.items[i+1] = item{key: right.key(0), child: right}
}

// search returns how many items of a node begin at or before key.
func (n *node) search(key string) int {
	low, high := 0, n.width()
	for low < high {
		if middle := (low + high) / 2; n.key(middle) <= key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// locate returns the leaf and the index of the item under key, or nil.
func (n *node) locate(key string) (leaf *node, i int) {
	if n == nil {
		return nil, 0
	}
	for !n.leaf {
		n = n.items[max(n.search(key)-1, 0)].child
	}
	if i := n.search(key) - 1; i >= 0 && n.key(i) == key {
		return n, i
	}
	return nil, 0
}

// has reports whether there is an item under key.
func (n *node) has(key string) bool {
	leaf, _ := n.locate(key)
	return leaf != nil
}

// get returns the record under key, or nil.
func (n *node) get(key string) *storage.Record {
	if leaf, i := n.locate(key); leaf != nil {
		return leaf.record(i)
	}
	return nil
}

// find returns the item under key, or nil, of a tree that [tree.set] has made.
func (n *node) find(key string) *item {
	if leaf, i := n.locate(key); leaf != nil {
		return &leaf.items[i]
	}
	return nil
}

// len returns the number of records in the subtree.
func (n *node) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

// rank returns the number of records before key.
func (n *node) rank(key string) int {
	if n == nil {
		return 0
	}
	rank := 0
	for !n.leaf {
		i := max(n.search(key)-1, 0)
		for _, it := range n.items[:i] {
			rank += it.child.size
		}
		n = n.items[i].child
	}
	i := n.search(key)
	if i > 0 && n.key(i-1) == key {
		i--
	}
	return rank + i
}

// collect appends the records with ranks in [from, to) to records.
func (n *node) collect(records []*storage.Record, from, to int) []*storage.Record {
	if n == nil || from >= to {
		return records
	}
	if n.records != nil {
		return append(records, n.records[from:to]...)
	}
	if n.leaf {
		for _, it := range n.items[from:to] {
			records = append(records, it.record)
		}
		return records
	}
	for _, it := range n.items {
		if to <= 0 {
			break
		}
		size := it.child.size
		if from < size {
			records = it.child.collect(records, max(from, 0), min(to, size))
		}
		from, to = from-size, to-size
	}
	return records
}
