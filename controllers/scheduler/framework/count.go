package framework

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// maxCounts bounds the counts that a snapshot keeps up to date. A count that was not read for the longest time is dropped, and
// made again when it is read, of the pods with its pair.
const maxCounts = 4096

// count is the number of pods on each node that match. Each change of a pod changes it.
type count struct {
	key     string
	pair    string // a label that all matching pods have, or ""
	matches func(*Pod) bool
	bySlot  []int32
	read    uint64 // the number of the last read
}

// at returns the number of matching pods on a node.
func (c *count) at(n *Node) int64 {
	if n.slot < len(c.bySlot) {
		return int64(c.bySlot[n.slot])
	}
	return 0
}

func (c *count) add(p *Pod, n *Node, by int32) {
	if !c.matches(p) {
		return
	}
	if n.slot >= len(c.bySlot) {
		c.bySlot = append(c.bySlot, make([]int32, n.slot+1-len(c.bySlot))...)
	}
	c.bySlot[n.slot] += by
}

// count returns the number of pods on each node that match. The key must differ for functions that differ. All pods that match must have
// the label pair, unless it is empty.
func (s *Snapshot) count(key, pair string, matches func(*Pod) bool) *count {
	s.reads++
	c := s.counts[key]
	if c == nil {
		if len(s.counts) >= maxCounts {
			s.dropCounts()
		}
		c = &count{key: key, pair: pair, matches: matches}
		if pair == "" {
			for _, p := range s.pods {
				c.add(p, p.node, 1)
			}
		} else {
			for p := range s.labeled[pair] {
				c.add(p, p.node, 1)
			}
		}
		s.counts[key] = c
		s.byPair[pair] = append(s.byPair[pair], c)
	}
	c.read = s.reads
	return c
}

// dropCounts drops the half of the counts that was not read for longer than the other.
func (s *Snapshot) dropCounts() {
	list := slices.SortedFunc(maps.Values(s.counts), func(a, b *count) int { return cmp.Compare(a.read, b.read) })
	for _, c := range list[:len(list)/2] {
		delete(s.counts, c.key)
		others := slices.DeleteFunc(s.byPair[c.pair], func(o *count) bool { return o == c })
		if s.byPair[c.pair] = others; len(others) == 0 {
			delete(s.byPair, c.pair)
		}
	}
}

// changeCounts adds a pod to the counts that may have it, or removes it.
func (s *Snapshot) changeCounts(p *Pod, by int32) {
	for _, c := range s.byPair[""] {
		c.add(p, p.node, by)
	}
	for pair := range p.labels.pairs() {
		for _, c := range s.byPair[pair] {
			c.add(p, p.node, by)
		}
		if by < 0 {
			if delete(s.labeled[pair], p); len(s.labeled[pair]) == 0 {
				delete(s.labeled, pair)
			}
			continue
		}
		if s.labeled[pair] == nil {
			s.labeled[pair] = map[*Pod]struct{}{}
		}
		s.labeled[pair][p] = struct{}{}
	}
}

// pairOf returns a label that a selector requires, or "".
func pairOf(selector labels.Selector) string {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				return r.Key() + "=" + values[0]
			}
		}
	}
	return ""
}

// countSelected counts the pods of a namespace that a selector selects, without those that are being deleted. Nothing is counted
// for a selector that selects everything.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.countPodsMatchSelector
func (s *Snapshot) countSelected(namespace string, selector labels.Selector) *count {
	if selector.Empty() {
		return &count{}
	}
	return s.count("selected|"+namespace+"|"+selectorKey(selector), pairOf(selector), func(p *Pod) bool {
		return !p.Terminating && p.Namespace == namespace && selector.Matches(p.labels)
	})
}

// countTerms counts the pods that match all terms of a pod, which must be resolved.
//
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.podMatchesAllAffinityTerms
func (s *Snapshot) countTerms(list ...term) *count {
	keys, pair := make([]string, len(list)), ""
	for i := range list {
		keys[i], pair = list[i].key, cmp.Or(pair, pairOf(list[i].selector))
	}
	return s.count("terms|"+strings.Join(keys, "&"), pair, func(p *Pod) bool { return matchesAll(list, p) })
}

// matchesAll reports whether there are terms, and a pod matches each.
func matchesAll(list []term, p *Pod) bool {
	for i := range list {
		if !list[i].matches(p, nil) {
			return false
		}
	}
	return len(list) > 0
}

// The kinds of terms that the pods of a snapshot are grouped by.
const (
	requiredTerms = iota
	antiTerms
	preferredTerms
	preferredAntiTerms
	termKinds
)

// termGroup is the pods that have the same term.
type termGroup struct {
	term
	pods   int
	bySlot []int32
}

// groupTerms adds the terms of a pod to the groups, or removes them.
func (s *Snapshot) groupTerms(p *Pod, by int32) {
	if p.terms == nil {
		return
	}
	for kind, list := range [termKinds][]term{p.terms.affinity, p.terms.antiAffinity, p.terms.preferred, p.terms.preferredAntiAffinity} {
		for i := range list {
			groups := s.groups[kind]
			g := groups[list[i].key]
			if g == nil {
				g = &termGroup{term: list[i]}
				groups[g.key] = g
			}
			if slot := p.node.slot; slot >= len(g.bySlot) {
				g.bySlot = append(g.bySlot, make([]int32, slot+1-len(g.bySlot))...)
			}
			g.bySlot[p.node.slot] += by
			if g.pods += int(by); g.pods == 0 {
				delete(groups, g.key)
			}
		}
	}
}

// onNodes calls a function with each existing node with pods of a group, and their number.
func (s *Snapshot) onNodes(bySlot []int32, do func(n *Node, pods int64)) {
	for _, n := range s.list {
		if n.slot < len(bySlot) && bySlot[n.slot] != 0 {
			do(n, int64(bySlot[n.slot]))
		}
	}
}
