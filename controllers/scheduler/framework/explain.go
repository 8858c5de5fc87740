package framework

import corev1 "k8s.io/api/core/v1"

// Explanation says how each node comes off in an attempt to schedule a pod, by the name of the node.
type Explanation struct {
	// Rejected are the nodes that the pod does not fit on.
	Rejected map[string]*Status
	// Scores are the weighted scores of the other nodes, by plugin. A plugin that prefers no node is left out.
	Scores map[string]map[string]int64
	// Candidates are the victims on the nodes that are equally good to evict pods from.
	Candidates map[string][]*Pod
}

// Explain returns how the nodes come off in an attempt to schedule a pod. Other than [Snapshot.Schedule], it considers all nodes, and
// also nodes that required affinity excludes by their names.
func (s *Snapshot) Explain(pod *corev1.Pod) Explanation {
	e := Explanation{Rejected: map[string]*Status{}, Scores: map[string]map[string]int64{}, Candidates: map[string][]*Pod{}}
	c, failed := s.newCycle(pod)
	if failed == nil {
		_, _, failed = c.preFilter()
	}
	var fit []*Node
	statuses := map[*Node]*Status{}
	for _, n := range s.list {
		status := failed
		if status == nil {
			status = c.filter(n)
		}
		if status == nil {
			fit = append(fit, n)
			continue
		}
		e.Rejected[n.name], statuses[n] = status, status
	}
	if len(fit) == 0 && failed == nil && c.mayNotPreempt(statuses) == "" {
		e.addCandidates(c, statuses)
	}
	for plugin, scores := range c.scoreNodes(fit) {
		byNode := map[string]int64{}
		for i, n := range fit {
			byNode[n.name] = scores[i]
		}
		e.Scores[plugin] = byNode
	}
	return e
}

func (e *Explanation) addCandidates(c *cycle, statuses map[*Node]*Status) {
	list, _ := c.candidates(statuses)
	for _, o := range list {
		if isBest(o, list) {
			e.Candidates[o.node.name] = o.victims
		}
	}
}

func isBest(o candidate, list []candidate) bool {
	for _, other := range list {
		if compareCandidates(other, o) < 0 {
			return false
		}
	}
	return true
}

// Unsuitable returns the reasons why a node with some pods is not suitable for another pod, and whether the eviction of pods would
// not help. A suitable node has no reasons.
func Unsuitable(pod *corev1.Pod, node *corev1.Node, others []*corev1.Pod) (reasons []string, unresolvable bool) {
	s := NewSnapshot()
	s.SetNode(node)
	for _, o := range others {
		s.SetPod(o)
	}
	if status := s.Explain(pod).Rejected[node.Name]; status != nil {
		return status.Reasons, status.Unresolvable
	}
	return nil, false
}
