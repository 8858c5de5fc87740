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

// node is a leaf, with records as items, or an inner node, with children as items. All leaves have the same depth. A
// nil node is an empty tree.
type node struct {
	owner *owner
	leaf  bool
	size  int // number of records in the subtree
	items []item
}

// item is a record with its key, or a child with a lower bound of its keys. The lower bound is greater than all keys of
// the items before.
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
	return t.node(n.leaf, n.items)
}

// node returns a new node with a copy of items.
func (t *tree) node(leaf bool, items []item) *node {
	n := &node{owner: t.owner, leaf: leaf, items: append(make([]item, 0, fanout), items...)}
	n.size = n.count()
	return n
}

func (n *node) count() int {
	if n.leaf {
		return len(n.items)
	}
	size := 0
	for i := range n.items {
		size += n.items[i].child.size
	}
	return size
}

// put adds a record under a key, or replaces the current one.
func (t *tree) put(key string, r *storage.Record) {
	if t.root == nil {
		t.root = &node{leaf: true}
	}
	root := t.mutable(t.root)
	_, right := t.insert(root, key, r)
	if right != nil {
		root = t.node(false, []item{{key: root.items[0].key, child: root}, {key: right.items[0].key, child: right}})
	}
	t.root = root
}

// insert puts a record in or below an owned node, and reports whether the key is new. If the node becomes full, insert
// moves its upper part to a new node and returns it.
func (t *tree) insert(n *node, key string, r *storage.Record) (added bool, right *node) {
	i := n.search(key)
	if n.leaf {
		if i > 0 && n.items[i-1].key == key {
			n.items[i-1] = item{key: key, record: r}
			return false, nil
		}
		n.items = slices.Insert(n.items, i, item{key: key, record: r})
		added = true
	} else {
		i = max(i-1, 0)
		it := &n.items[i]
		it.key = min(it.key, key)
		it.child = t.mutable(it.child)
		if added, right = t.insert(it.child, key, r); right != nil {
			i++
			n.items = slices.Insert(n.items, i, item{key: right.items[0].key, child: right})
		}
	}
	if added {
		n.size++
	}
	if len(n.items) < fanout {
		return added, nil
	}
	if i == fanout-1 {
		return added, t.split(n, i) // so that keys in ascending order leave full nodes behind
	}
	return added, t.split(n, fanout/2)
}

// split moves the items of a node from index i on to a new node.
func (t *tree) split(n *node, i int) *node {
	right := t.node(n.leaf, n.items[i:])
	clear(n.items[i:])
	n.items = n.items[:i]
	n.size -= right.size
	return right
}

// remove deletes the record under key, if there is one.
func (t *tree) remove(key string) {
	if t.root.get(key) == nil {
		return
	}
	root := t.mutable(t.root)
	t.delete(root, key)
	for !root.leaf && len(root.items) == 1 {
		root = root.items[0].child
	}
	if t.root = root; len(root.items) == 0 {
		t.root = nil
	}
}

// delete removes the record under key, which is in or below an owned node.
func (t *tree) delete(n *node, key string) {
	n.size--
	i := max(n.search(key)-1, 0)
	if n.leaf {
		n.items = slices.Delete(n.items, i, i+1)
		return
	}
	below := t.mutable(n.items[i].child)
	n.items[i].child = below
	t.delete(below, key)
	switch {
	case len(below.items) == 0:
		n.items = slices.Delete(n.items, i, i+1)
	case len(below.items) < minItems && len(n.items) > 1:
		t.merge(n, max(i-1, 0))
	}
}

// merge makes one node of the children at i and i+1, or two nodes of equal size if their items do not fit in one.
func (t *tree) merge(n *node, i int) {
	left, right := t.mutable(n.items[i].child), n.items[i+1].child
	left.items = append(left.items, right.items...)
	left.size += right.size
	n.items[i].child = left
	if len(left.items) < fanout {
		n.items = slices.Delete(n.items, i+1, i+2)
		return
	}
	right = t.split(left, len(left.items)/2)
	n.items[i+1] = item{key: right.items[0].key, child: right}
}

// search returns how many items of a node begin at or before key.
func (n *node) search(key string) int {
	low, high := 0, len(n.items)
	for low < high {
		if middle := (low + high) / 2; n.items[middle].key <= key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// get returns the record under key, or nil.
func (n *node) get(key string) *storage.Record {
	if n == nil {
		return nil
	}
	for !n.leaf {
		n = n.items[max(n.search(key)-1, 0)].child
	}
	if i := n.search(key) - 1; i >= 0 && n.items[i].key == key {
		return n.items[i].record
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
	if i > 0 && n.items[i-1].key == key {
		i--
	}
	return rank + i
}

// collect appends the records with ranks in [from, to) to records.
func (n *node) collect(records []*storage.Record, from, to int) []*storage.Record {
	if n == nil || from >= to {
		return records
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
