package framework

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// interPodAffinity is the affinity of the pod to other pods, and theirs to the pod.
//
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity
type interPodAffinity struct {
	namespace labels.Set // the labels of the namespace of the pod
	// affinity and antiAffinity are the required terms of the pod.
	affinity, antiAffinity []term
	// The numbers of pods by topology: the ones that match all terms of the affinity, the ones that match a term of the
	// anti-affinity, and the ones with a term of anti-affinity that matches the pod.
	matching, unwanted, existing topologies
	scores                       topologies // the sums of the weights of preferred terms
	keys                         []string   // the keys of their topologies
}

// topology is a label of nodes.
type topology struct{ key, value string }

// topologies are numbers by topology. Zeros are left out.
//
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.topologyToMatchedTermCount
type topologies map[topology]int64

// add adds to the number of a node's topology, if the node has the label.
//
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.topologyToMatchedTermCount.update
func (t topologies) add(n *Node, key string, by int64) {
	value, ok := n.Labels[key]
	if !ok {
		return
	}
	at := topology{key, value}
	if t[at] += by; t[at] == 0 {
		delete(t, at)
	}
}

var (
	affinityUnmet                 = unresolvable("InterPodAffinity", "node(s) didn't match pod affinity rules")
	antiAffinityUnmet             = rejected("InterPodAffinity", "node(s) didn't match pod anti-affinity rules")
	existingAntiUnmet             = rejected("InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules")
	_                 podObserver = (*interPodAffinity)(nil)
)

func (*interPodAffinity) name() string  { return "InterPodAffinity" }
func (*interPodAffinity) weight() int64 { return 2 }

//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.PreFilter
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.getExistingAntiAffinityCounts
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.getIncomingAffinityAntiAffinityCounts
func (a *interPodAffinity) preFilter(c *cycle) preFilterResult {
	a.namespace = c.Objects.namespaces[c.pod.Namespace]
	a.matching, a.unwanted, a.existing = topologies{}, topologies{}, topologies{}
	for _, g := range c.groups[antiTerms] {
		if g.matches(c.info, a.namespace) {
			c.onNodes(g.bySlot, func(n *Node, pods int64) { a.existing.add(n, g.topologyKey, pods) })
		}
	}
	if t := c.info.terms; t != nil {
		a.affinity, a.antiAffinity = resolveAll(t.affinity, c.Objects), resolveAll(t.antiAffinity, c.Objects)
	}
	if len(a.affinity) > 0 {
		c.onNodes(c.countTerms(a.affinity...).bySlot, func(n *Node, pods int64) {
			for i := range a.affinity {
				a.matching.add(n, a.affinity[i].topologyKey, pods)
			}
		})
	}
	for i := range a.antiAffinity {
		t := &a.antiAffinity[i]
		c.onNodes(c.countTerms(*t).bySlot, func(n *Node, pods int64) { a.unwanted.add(n, t.topologyKey, pods) })
	}
	return preFilterResult{skip: len(a.existing) == 0 && len(a.affinity) == 0 && len(a.antiAffinity) == 0}
}

func resolveAll(list []term, o *Objects) []term {
	resolved := make([]term, len(list))
	for i := range list {
		resolved[i] = list[i].resolved(o)
	}
	return resolved
}

//upstream:pkg/scheduler/framework/plugins/interpodaffinity.preFilterState.updateWithPod
func (a *interPodAffinity) podChanged(c *cycle, p *Pod, n *Node, by int) {
	if p.terms != nil {
		for i := range p.terms.antiAffinity {
			if t := &p.terms.antiAffinity[i]; t.matches(c.info, a.namespace) {
				a.existing.add(n, t.topologyKey, int64(by))
			}
		}
	}
	if matchesAll(a.affinity, p) {
		for i := range a.affinity {
			a.matching.add(n, a.affinity[i].topologyKey, int64(by))
		}
	}
	for i := range a.antiAffinity {
		if t := &a.antiAffinity[i]; t.matches(p, nil) {
			a.unwanted.add(n, t.topologyKey, int64(by))
		}
	}
}

//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.Filter
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.satisfyPodAntiAffinity
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.satisfyExistingPodsAntiAffinity
func (a *interPodAffinity) filter(c *cycle, n *Node) *Status {
	if len(a.affinity) > 0 && !a.attracted(c, n) {
		return affinityUnmet
	}
	if len(a.unwanted) > 0 {
		for i := range a.antiAffinity {
			key := a.antiAffinity[i].topologyKey
			if value, ok := n.Labels[key]; ok && a.unwanted[topology{key, value}] > 0 {
				return antiAffinityUnmet
			}
		}
	}
	if len(a.existing) > 0 {
		for key, value := range n.Labels {
			if a.existing[topology{key, value}] > 0 {
				return existingAntiUnmet
			}
		}
	}
	return nil
}

// attracted reports whether a node has the topology of pods that match the affinity. The first pod of a group that wants to be
// together has no other pods to be with, so it may match its own terms.
//
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.nodeTopologyMatchesAffinity
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.satisfiesSelfAffinityCheck
func (a *interPodAffinity) attracted(c *cycle, n *Node) bool {
	found := true
	for i := range a.affinity {
		key := a.affinity[i].topologyKey
		value, ok := n.Labels[key]
		if !ok {
			return false
		}
		found = found && a.matching[topology{key, value}] > 0
	}
	return found || len(a.matching) == 0 && matchesAll(a.affinity, c.info)
}

// preScore sums the weights of preferred terms, of the pod and of other pods. A term that other pods require counts as one of
// the weight 1.
//
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.PreScore
//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.processExistingPod
//upstream:pkg/scheduler/apis/config/v1.SetDefaults_InterPodAffinityArgs
func (a *interPodAffinity) preScore(c *cycle, _ []*Node) (skip bool) {
	a.scores = topologies{}
	ofPod := func(list []term, sign int64) {
		for _, t := range resolveAll(list, c.Objects) {
			c.onNodes(c.countTerms(t).bySlot, func(n *Node, pods int64) { a.scores.add(n, t.topologyKey, sign*t.weight*pods) })
		}
	}
	ofOthers := func(kind int, sign int64) {
		for _, g := range c.groups[kind] {
			if g.matches(c.info, a.namespace) {
				c.onNodes(g.bySlot, func(n *Node, pods int64) { a.scores.add(n, g.topologyKey, sign*g.weight*pods) })
			}
		}
	}
	if t := c.info.terms; t != nil {
		ofPod(t.preferred, 1)
		ofPod(t.preferredAntiAffinity, -1)
	}
	ofOthers(requiredTerms, 1)
	ofOthers(preferredTerms, 1)
	ofOthers(preferredAntiTerms, -1)
	for at := range a.scores {
		if !slices.Contains(a.keys, at.key) {
			a.keys = append(a.keys, at.key)
		}
	}
	return len(a.scores) == 0
}

//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.Score
func (a *interPodAffinity) score(_ *cycle, n *Node) (sum int64) {
	for _, key := range a.keys {
		if value, ok := n.Labels[key]; ok {
			sum += a.scores[topology{key, value}]
		}
	}
	return sum
}

//upstream:pkg/scheduler/framework/plugins/interpodaffinity.InterPodAffinity.NormalizeScore
func (*interPodAffinity) normalize(scores []int64) {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range scores {
		least, most = min(least, s), max(most, s)
	}
	for i, s := range scores {
		scores[i] = 0
		if most > least {
			scores[i] = int64(maxScore * (float64(s-least) / float64(most-least)))
		}
	}
}
