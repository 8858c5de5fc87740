package framework

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"flyball.dev/controllers/internal/nodestate"
)

// nodeAffinity is the node selector and the node affinity of a pod.
//
//upstream:pkg/scheduler/framework/plugins/nodeaffinity.NodeAffinity.Filter
//upstream:pkg/scheduler/framework/plugins/nodeaffinity.NodeAffinity.Score
type nodeAffinity struct {
	preferred []corev1.PreferredSchedulingTerm
}

var (
	notSelected   = unresolvable("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	contradictory = unresolvable("NodeAffinity", "pod affinity terms conflict")
)

func (*nodeAffinity) name() string  { return "NodeAffinity" }
func (*nodeAffinity) weight() int64 { return 2 }

//upstream:pkg/scheduler/framework/plugins/nodeaffinity.NodeAffinity.PreFilter
func (*nodeAffinity) preFilter(c *cycle) preFilterResult {
	required := requiredNodes(c.pod)
	if required == nil {
		return preFilterResult{skip: c.pod.Spec.NodeSelector == nil}
	}
	var nodes sets.Set[string]
	for _, t := range required.NodeSelectorTerms {
		names := namedNodes(t)
		if names == nil {
			return preFilterResult{}
		}
		nodes = nodes.Union(names)
	}
	if nodes != nil && len(nodes) == 0 {
		return preFilterResult{status: contradictory}
	}
	return preFilterResult{nodes: nodes}
}

// namedNodes returns the names of the nodes that a term names, or nil if it names none.
func namedNodes(t corev1.NodeSelectorTerm) (names sets.Set[string]) {
	for _, r := range t.MatchFields {
		if r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		if names == nil {
			names = sets.New(r.Values...)
		} else {
			names = names.Intersection(sets.New(r.Values...))
		}
	}
	return names
}

func requiredNodes(pod *corev1.Pod) *corev1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func (*nodeAffinity) filter(c *cycle, n *Node) *Status {
	if !nodestate.Required(c.pod.Spec.NodeSelector, c.pod.Spec.Affinity, n.Node) {
		return notSelected
	}
	return nil
}

//upstream:pkg/scheduler/framework/plugins/nodeaffinity.NodeAffinity.PreScore
func (a *nodeAffinity) preScore(c *cycle, _ []*Node) (skip bool) {
	if of := c.pod.Spec.Affinity; of != nil && of.NodeAffinity != nil {
		a.preferred = of.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return a.preferred == nil
}

//upstream:k8s.io/component-helpers/scheduling/corev1/nodeaffinity.PreferredSchedulingTerms.Score
func (a *nodeAffinity) score(_ *cycle, n *Node) (sum int64) {
	for i := range a.preferred {
		if nodestate.MatchesTerm(a.preferred[i].Preference, n.Node) {
			sum += int64(a.preferred[i].Weight)
		}
	}
	return sum
}

func (*nodeAffinity) normalize(scores []int64) { normalizeByMax(scores, false) }
