package framework

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/nodestate"
)

// podTopologySpread spreads pods over topologies, by the constraints of the pod or by the ones of the cluster.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread
type podTopologySpread struct {
	required  []constraint
	preferred []constraint
	// all is whether a node needs the labels of all preferred constraints.
	all     bool
	ignored map[*Node]bool // the nodes that do not have them
}

// constraint is a constraint of the spread, with the number of matching pods by the value of its topology.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.topologySpreadConstraint
type constraint struct {
	maxSkew, minDomains int64
	key                 string
	selector            labels.Selector
	affinity, taints    bool // whether nodes that the pod cannot have for them do not count
	self                int64
	count               *count
	byValue             map[string]int64
	least               int64 // the least number, or negative if it must be computed
	weight              float64
}

var (
	topologyMissing             = unresolvable("PodTopologySpread", "node(s) didn't match pod topology spread constraints (missing required label)")
	topologyUneven              = rejected("PodTopologySpread", "node(s) didn't match pod topology spread constraints")
	_               podObserver = (*podTopologySpread)(nil)
)

// defaultConstraints are the constraints of pods that have none.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.systemDefaultConstraints
var defaultConstraints = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
}

func (*podTopologySpread) name() string  { return "PodTopologySpread" }
func (*podTopologySpread) weight() int64 { return 2 }

// newConstraints returns the constraints of a pod that have an effect.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.filterTopologySpreadConstraints
func newConstraints(c *cycle, list []corev1.TopologySpreadConstraint, effect corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var parsed []constraint
	for i := range list {
		of := &list[i]
		if of.WhenUnsatisfiable != effect {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(of.LabelSelector)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, constraint{maxSkew: int64(of.MaxSkew), minDomains: int64(ptr.Deref(of.MinDomains, 1)), key: of.TopologyKey,
			selector: withLabels(selector, of.MatchLabelKeys, c.pod.Labels),
			affinity: ptr.Deref(of.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor,
			taints:   ptr.Deref(of.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor,
			byValue:  map[string]int64{}, least: -1})
	}
	return parsed, nil
}

// withLabels adds requirements for the labels of a pod with some keys to a selector.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.mergeLabelSetWithSelector
func withLabels(selector labels.Selector, keys []string, of labels.Set) labels.Selector {
	set := labels.Set{}
	for _, key := range keys {
		if value, ok := of[key]; ok {
			set[key] = value
		}
	}
	requirements, selectable := selector.Requirements()
	if len(set) == 0 || !selectable {
		return selector
	}
	return labels.SelectorFromSet(set).Add(requirements...)
}

// counts reports whether the pods of a node count.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.topologySpreadConstraint.matchNodeInclusionPolicies
func (t *constraint) counts(pod *corev1.Pod, n *Node) bool {
	return (!t.affinity || nodestate.Required(pod.Spec.NodeSelector, pod.Spec.Affinity, n.Node)) &&
		(!t.taints || !repelled(pod.Spec.Tolerations, n.taints))
}

// haveKeys reports whether a node has the labels of all constraints.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.nodeLabelsMatchSpreadConstraints
func haveKeys(n *Node, list []constraint) bool {
	for i := range list {
		if _, ok := n.Labels[list[i].key]; !ok {
			return false
		}
	}
	return true
}

//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.PreFilter
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.calPreFilterState
func (s *podTopologySpread) preFilter(c *cycle) preFilterResult {
	if len(c.pod.Spec.TopologySpreadConstraints) == 0 {
		return preFilterResult{skip: true}
	}
	var err error
	if s.required, err = newConstraints(c, c.pod.Spec.TopologySpreadConstraints, corev1.DoNotSchedule); err != nil {
		return preFilterResult{status: &Status{Plugin: s.name(), err: err}}
	}
	for i := range s.required {
		t := &s.required[i]
		t.count = c.countSelected(c.pod.Namespace, t.selector)
		if t.selector.Matches(c.info.labels) {
			t.self = 1
		}
	}
	for _, n := range c.list {
		if len(s.required) == 0 || !haveKeys(n, s.required) {
			continue
		}
		for i := range s.required {
			if t := &s.required[i]; t.counts(c.pod, n) {
				t.byValue[n.Labels[t.key]] += t.count.at(n)
			}
		}
	}
	return preFilterResult{skip: len(s.required) == 0}
}

//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.updateWithPod
func (s *podTopologySpread) podChanged(c *cycle, p *Pod, n *Node, by int) {
	if p.Namespace != c.pod.Namespace || !haveKeys(n, s.required) {
		return
	}
	for i := range s.required {
		if t := &s.required[i]; t.selector.Matches(p.labels) && t.counts(c.pod, n) {
			t.byValue[n.Labels[t.key]] += int64(by)
			t.least = -1
		}
	}
}

//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.Filter
func (s *podTopologySpread) filter(_ *cycle, n *Node) *Status {
	for i := range s.required {
		t := &s.required[i]
		value, ok := n.Labels[t.key]
		if !ok {
			return topologyMissing
		}
		if t.byValue[value]+t.self-t.minimum() > t.maxSkew {
			return topologyUneven
		}
	}
	return nil
}

// minimum returns the least number of matching pods in a topology. It is zero while there are too few topologies.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.preFilterState.minMatchNum
func (t *constraint) minimum() int64 {
	if int64(len(t.byValue)) < t.minDomains {
		return 0
	}
	if t.least < 0 {
		t.least = math.MaxInt32
		for _, n := range t.byValue {
			t.least = min(t.least, n)
		}
	}
	return t.least
}

// preScore counts the pods of the topologies of nodes. The pods of a host are counted when the host is scored.
//
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.PreScore
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.initPreScoreState
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.buildDefaultConstraints
func (s *podTopologySpread) preScore(c *cycle, nodes []*Node) (skip bool) {
	s.setPreferred(c)
	if len(s.preferred) == 0 {
		return true
	}
	s.ignored = map[*Node]bool{}
	for _, n := range nodes {
		if s.all && !haveKeys(n, s.preferred) {
			s.ignored[n] = true
			continue
		}
		for i := range s.preferred {
			if t := &s.preferred[i]; t.key != corev1.LabelHostname {
				t.byValue[n.Labels[t.key]] = 0
			}
		}
	}
	for i := range s.preferred {
		t := &s.preferred[i]
		t.count = c.countSelected(c.pod.Namespace, t.selector)
		size := len(t.byValue)
		if t.key == corev1.LabelHostname {
			size = len(nodes) - len(s.ignored)
		} else {
			s.countByValue(c, t)
		}
		t.weight = math.Log(float64(size + 2)) // few large topologies count as much as many small ones
	}
	return false
}

// setPreferred sets the preferred constraints.
func (s *podTopologySpread) setPreferred(c *cycle) {
	own := c.pod.Spec.TopologySpreadConstraints
	s.all = len(own) > 0
	if s.all {
		s.preferred, _ = newConstraints(c, own, corev1.ScheduleAnyway) // preFilter has parsed all
		return
	}
	selector := c.Objects.spreadSelector(c.pod)
	if selector.Empty() {
		s.preferred = nil
		return
	}
	s.preferred, _ = newConstraints(c, defaultConstraints, corev1.ScheduleAnyway)
	for i := range s.preferred {
		s.preferred[i].selector = selector
	}
}

// countByValue counts the pods in the topologies of a constraint that have values.
func (s *podTopologySpread) countByValue(c *cycle, t *constraint) {
	c.onNodes(t.count.bySlot, func(n *Node, pods int64) {
		value := n.Labels[t.key]
		if _, ok := t.byValue[value]; ok && (!s.all || haveKeys(n, s.preferred)) && t.counts(c.pod, n) {
			t.byValue[value] += pods
		}
	})
}

//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.Score
//upstream:pkg/scheduler/framework/plugins/podtopologyspread.scoreForCount
func (s *podTopologySpread) score(_ *cycle, n *Node) int64 {
	if s.ignored[n] {
		return ignoredScore
	}
	sum := 0.0
	for i := range s.preferred {
		t := &s.preferred[i]
		value, ok := n.Labels[t.key]
		if !ok {
			continue
		}
		pods := t.byValue[value]
		if t.key == corev1.LabelHostname {
			pods = t.count.at(n)
		}
		sum += float64(pods)*t.weight + float64(t.maxSkew-1)
	}
	return int64(math.Round(sum))
}

// ignoredScore is the score of a node without the labels of all constraints, before scores are normalized.
const ignoredScore = -1

//upstream:pkg/scheduler/framework/plugins/podtopologyspread.PodTopologySpread.NormalizeScore
func (*podTopologySpread) normalize(scores []int64) {
	least, most := int64(math.MaxInt64), int64(0)
	for _, s := range scores {
		if s != ignoredScore {
			least, most = min(least, s), max(most, s)
		}
	}
	for i, s := range scores {
		switch {
		case s == ignoredScore:
			scores[i] = 0
		case most == 0:
			scores[i] = maxScore
		default:
			scores[i] = maxScore * (most + least - s) / most
		}
	}
}
