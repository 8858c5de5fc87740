package framework

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// candidate is a node that the pod fits on if some pods are evicted.
//
//upstream:pkg/scheduler/framework/preemption.candidate
type candidate struct {
	node       *Node
	victims    []*Pod // in the order of importance
	violations int    // the number of evictions that violate a PodDisruptionBudget
}

// preempt looks for a node that the pod fits on without pods of a lower priority. If there is none, it says why. It returns
// the new nomination of the pod too, if there is one.
//
//upstream:pkg/scheduler/framework/plugins/defaultpreemption.DefaultPreemption.PostFilter
//upstream:pkg/scheduler/framework/preemption.Evaluator.evaluate
//upstream:pkg/scheduler/framework/preemption.Evaluator.Preempt
func (c *cycle) preempt(statuses map[*Node]*Status) (n *Node, victims []*Pod, nomination *string, message string) {
	if reason := c.mayNotPreempt(statuses); reason != "" {
		return nil, nil, nil, "preemption: " + reason
	}
	candidates, failed := c.candidates(statuses)
	if len(candidates) == 0 {
		return nil, nil, ptr.To(""), "preemption: " + fitError(len(c.list), failed, preemptionUseless, "", "")
	}
	best := slices.MinFunc(candidates, compareCandidates)
	return best.node, best.victims, nil, "preemption: found a potential placement for pod on node " + best.node.name + ", preempting " +
		strconv.Itoa(len(best.victims)) + " victims"
}

// mayNotPreempt returns why the pod may not evict others, or "". A pod waits for the victims that it has already.
//
//upstream:pkg/scheduler/framework/plugins/defaultpreemption.DefaultPreemption.PodEligibleToPreemptOthers
func (c *cycle) mayNotPreempt(statuses map[*Node]*Status) string {
	if ptr.Deref(c.pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever {
		return "not eligible due to preemptionPolicy=Never."
	}
	n := c.nodes[c.pod.Status.NominatedNodeName]
	if n == nil || n.Node == nil {
		return ""
	}
	if s := statuses[n]; s == nil || s.Unresolvable {
		return ""
	}
	if slices.ContainsFunc(n.pods, func(p *Pod) bool { return p.Preempted && p.Priority < c.info.Priority }) {
		return "not eligible due to a terminating pod on the nominated node."
	}
	return ""
}

// candidates returns the candidates, and why other nodes are none.
//
//upstream:pkg/scheduler/framework/preemption.Evaluator.findCandidates
//upstream:pkg/scheduler/framework/preemption.Evaluator.DryRunPreemption
//upstream:pkg/scheduler/framework/plugins/defaultpreemption.DefaultPreemption.calculateNumCandidates
func (c *cycle) candidates(statuses map[*Node]*Status) (list []candidate, failed map[*Node]*Status) {
	var nodes []*Node
	for _, n := range c.list {
		if s := statuses[n]; s != nil && !s.Unresolvable {
			nodes = append(nodes, n)
		}
	}
	failed = map[*Node]*Status{}
	budgets := slices.SortedFunc(maps.Values(c.Objects.budgets), func(a, b *policyv1.PodDisruptionBudget) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	enough, clean := min(max(len(nodes)*minCandidates/100, minCandidateNodes), len(nodes)), false
	for i := range nodes {
		if clean && len(list) >= enough {
			break
		}
		n := nodes[(c.next+i)%len(nodes)]
		found, status := c.victimsOn(n, budgets)
		if status != nil {
			failed[n] = status
			continue
		}
		list = append(list, found)
		clean = clean || found.violations == 0
	}
	return list, failed
}

// The shares and the number of the nodes that are enough candidates.
//
//upstream:pkg/scheduler/apis/config/v1.SetDefaults_DefaultPreemptionArgs
const (
	minCandidates     = 10
	minCandidateNodes = 100
)

// victimsOn returns the pods to evict from a node. All pods of a lower priority are removed first, and then as many as possible
// come back: pods with a violated budget before others, and important pods before others.
//
//upstream:pkg/scheduler/framework/plugins/defaultpreemption.DefaultPreemption.SelectVictimsOnNode
func (c *cycle) victimsOn(n *Node, budgets []*policyv1.PodDisruptionBudget) (candidate, *Status) {
	var lower []*Pod
	for _, p := range n.pods {
		if p.Priority < c.info.Priority {
			lower = append(lower, p)
		}
	}
	if len(lower) == 0 {
		return candidate{}, noVictims
	}
	removed, ports := map[*Pod]bool{}, maps.Clone(n.ports)
	for _, p := range lower {
		c.change(p, n, -1)
		removed[p] = true
	}
	defer func() {
		for _, p := range lower {
			if removed[p] {
				c.change(p, n, 1)
			}
		}
		n.ports = ports
	}()
	if s := c.filter(n); s != nil {
		return candidate{}, s
	}
	slices.SortStableFunc(lower, moreImportant)
	violating, others := splitByBudget(lower, budgets)
	found := candidate{node: n}
	keep := func(p *Pod) bool {
		c.change(p, n, 1)
		removed[p] = false
		if c.filter(n) == nil {
			return true
		}
		c.change(p, n, -1)
		removed[p] = true
		found.victims = append(found.victims, p)
		return false
	}
	for _, p := range violating {
		if !keep(p) {
			found.violations++
		}
	}
	for _, p := range others {
		keep(p)
	}
	if len(violating) > 0 && len(others) > 0 {
		slices.SortStableFunc(found.victims, moreImportant)
	}
	return found, nil
}

var noVictims = unresolvable("DefaultPreemption", "No preemption victims found for incoming pod")

// moreImportant orders pods by priority, and then by their starts.
//
//upstream:pkg/scheduler/framework/preemption.MoreImportantVictim
func moreImportant(a, b *Pod) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.started, b.started))
}

// splitByBudget returns the pods that a budget protects once the ones before them are evicted, and the other pods.
//
//upstream:pkg/scheduler/framework/preemption.FilterVictimsWithPDBViolation
func splitByBudget(pods []*Pod, budgets []*policyv1.PodDisruptionBudget) (violating, others []*Pod) {
	allowed := make([]int32, len(budgets))
	for i, b := range budgets {
		allowed[i] = b.Status.DisruptionsAllowed
	}
	for _, p := range pods {
		violates := false
		for i, b := range budgets {
			if violates || p.labels.empty() || b.Namespace != p.Namespace {
				continue
			}
			selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err != nil || selector.Empty() || !selector.Matches(p.labels) {
				continue
			}
			if _, evicted := b.Status.DisruptedPods[p.Name]; evicted {
				continue
			}
			allowed[i]--
			violates = allowed[i] < 0
		}
		if violates {
			violating = append(violating, p)
		} else {
			others = append(others, p)
		}
	}
	return violating, others
}

// compareCandidates orders candidates: first the one with the fewest violations, then the one with the least important victims, the
// fewest victims, and the victims that started last.
//
//upstream:pkg/scheduler/framework/preemption.pickOneNodeForPreemption
func compareCandidates(a, b candidate) int {
	sum := func(c candidate) (total int64) {
		for _, p := range c.victims {
			total += int64(p.Priority) + math.MaxInt32 + 1
		}
		return total
	}
	return cmp.Or(
		cmp.Compare(a.violations, b.violations),
		cmp.Compare(a.victims[0].Priority, b.victims[0].Priority),
		cmp.Compare(sum(a), sum(b)),
		cmp.Compare(len(a.victims), len(b.victims)),
		cmp.Compare(earliestStart(b.victims), earliestStart(a.victims)),
	)
}

// earliestStart returns the earliest start of the most important pods.
//
//upstream:pkg/scheduler/util.GetEarliestPodStartTime
func earliestStart(pods []*Pod) int64 {
	first := pods[0]
	for _, p := range pods {
		if p.Priority > first.Priority || p.Priority == first.Priority && p.started < first.started {
			first = p
		}
	}
	return first.started
}
