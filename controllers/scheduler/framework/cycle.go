package framework

import (
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// filterPlugin is a plugin that filters nodes. A plugin has the state of one cycle.
type filterPlugin interface {
	name() string
	// preFilter prepares the plugin for a cycle. It is called before filter.
	preFilter(*cycle) preFilterResult
	// filter returns why the pod of the cycle does not fit on a node.
	filter(*cycle, *Node) *Status
}

// preFilterResult has the state that a plugin computes before it considers nodes.
type preFilterResult struct {
	status *Status          // rejects all nodes
	skip   bool             // the plugin rejects no node
	nodes  sets.Set[string] // the only nodes that come into question, if not nil
}

// podObserver is a plugin with a state that depends on other pods.
type podObserver interface {
	// podChanged adds a pod on a node to the state, or removes it. The node has the pod before and after.
	podChanged(c *cycle, p *Pod, n *Node, by int)
}

// scorePlugin is a plugin that scores nodes.
type scorePlugin interface {
	name() string
	weight() int64
	// preScore prepares the plugin for the nodes that passed the filters. It reports whether the plugin prefers none.
	preScore(c *cycle, nodes []*Node) (skip bool)
	score(*cycle, *Node) int64
	// normalize maps the scores of all nodes to the range from 0 to maxScore.
	normalize(scores []int64)
}

// maxScore is the highest score of a node.
//
//upstream:k8s.io/kube-scheduler/framework.MaxNodeScore
const maxScore = 100

// cycle is an attempt to schedule a pod.
//
//upstream:pkg/scheduler.Scheduler.schedulingCycle
type cycle struct {
	*Snapshot
	pod  *corev1.Pod
	info *Pod

	nodeName      nodeName
	unschedulable nodeUnschedulable
	taints        taintToleration
	nodeAffinity  nodeAffinity
	ports         nodePorts
	fit           nodeResourcesFit
	balanced      balancedAllocation
	restrictions  volumeRestrictions
	limits        nodeVolumeLimits
	volumes       volumeBinding
	zones         volumeZone
	spread        podTopologySpread
	podAffinity   interPodAffinity
	images        imageLocality

	active []filterPlugin // the filters that may reject a node
}

// filters returns the filter plugins, in the order of the default profile.
//
//upstream:pkg/scheduler/apis/config/v1.getDefaultPlugins
func (c *cycle) filters() []filterPlugin {
	return []filterPlugin{&c.nodeName, &c.unschedulable, &c.taints, &c.nodeAffinity, &c.ports, &c.fit, &c.restrictions, &c.limits, &c.volumes,
		&c.zones, &c.spread, &c.podAffinity}
}

// scorers returns the score plugins.
//
//upstream:pkg/scheduler/apis/config/v1.getDefaultPlugins
func (c *cycle) scorers() []scorePlugin {
	return []scorePlugin{&c.taints, &c.nodeAffinity, &c.fit, &c.volumes, &c.spread, &c.podAffinity, &c.balanced, &c.images}
}

// preFilter prepares the filters. It returns the status that rejects all nodes, if there is one, and the nodes that come into
// question, with the plugins that say so.
//
//upstream:pkg/scheduler/framework/runtime.frameworkImpl.RunPreFilterPlugins
func (c *cycle) preFilter() (only sets.Set[string], plugins []string, status *Status) {
	for _, f := range c.filters() {
		r := f.preFilter(c)
		if r.status != nil {
			return nil, nil, r.status
		}
		if r.skip {
			continue
		}
		c.active = append(c.active, f)
		if r.nodes == nil {
			continue
		}
		plugins = append(plugins, f.name())
		if only == nil {
			only = r.nodes
		} else {
			only = only.Intersection(r.nodes)
		}
		if len(only) == 0 {
			slices.Sort(plugins)
			reason := "node(s) didn't satisfy plugin " + plugins[0]
			if len(plugins) > 1 {
				reason = "node(s) didn't satisfy plugin(s) [" + strings.Join(plugins, " ") + "] simultaneously"
			}
			return only, plugins, unresolvable("", reason)
		}
	}
	slices.Sort(plugins)
	return only, plugins, nil
}

// filter returns why the pod does not fit on a node. It has to fit beside the pods of its priority or a higher one that the node
// is reserved for, and without them too, because they may never come.
//
//upstream:pkg/scheduler/framework/runtime.frameworkImpl.RunFilterPluginsWithNominatedPods
//upstream:pkg/scheduler/framework/runtime.addGENominatedPods
func (c *cycle) filter(n *Node) *Status {
	var added []*Pod
	for _, p := range c.reserved[n.name] {
		if p.Priority >= c.info.Priority && p.UID != c.pod.UID {
			added = append(added, p)
		}
	}
	if len(added) > 0 {
		ports := maps.Clone(n.ports)
		for _, p := range added {
			c.change(p, n, 1)
		}
		status := c.runFilters(n)
		for _, p := range added {
			c.change(p, n, -1)
		}
		n.ports = ports // a pod of the node may use a port of an added one
		if status != nil {
			return status
		}
	}
	return c.runFilters(n)
}

// runFilters returns the status of the first filter that rejects a node.
//
//upstream:pkg/scheduler/framework/runtime.frameworkImpl.RunFilterPlugins
func (c *cycle) runFilters(n *Node) *Status {
	for _, f := range c.active {
		if s := f.filter(c, n); s != nil {
			return s
		}
	}
	return nil
}

// change adds a pod to a node, or removes it, for this cycle.
//
//upstream:pkg/scheduler/framework/runtime.frameworkImpl.RunPreFilterExtensionAddPod
//upstream:pkg/scheduler/framework/runtime.frameworkImpl.RunPreFilterExtensionRemovePod
func (c *cycle) change(p *Pod, n *Node, by int) {
	if by > 0 {
		n.add(p)
	} else {
		n.remove(p)
	}
	for _, f := range c.active {
		if o, ok := f.(podObserver); ok {
			o.podChanged(c, p, n, by)
		}
	}
}

// scoreNodes returns the weighted scores of nodes, by plugin, in the order of the nodes. The next iteration overwrites the
// slice. A plugin that prefers no node is left out.
//
//upstream:pkg/scheduler.prioritizeNodes
//upstream:pkg/scheduler/framework/runtime.frameworkImpl.RunPreScorePlugins
//upstream:pkg/scheduler/framework/runtime.frameworkImpl.RunScorePlugins
func (c *cycle) scoreNodes(nodes []*Node) iter.Seq2[string, []int64] {
	return func(yield func(string, []int64) bool) {
		scores := make([]int64, len(nodes))
		for _, p := range c.scorers() {
			if p.preScore(c, nodes) {
				continue
			}
			for i, n := range nodes {
				scores[i] = p.score(c, n)
			}
			p.normalize(scores)
			for i := range scores {
				scores[i] *= p.weight()
			}
			if !yield(p.name(), scores) {
				return
			}
		}
	}
}

// best returns the node with the highest score. Of several, it returns the one with the fewest pods.
//
//upstream:pkg/scheduler.Scheduler.schedulePod
func (c *cycle) best(nodes []*Node) *Node {
	if len(nodes) == 1 {
		return nodes[0]
	}
	totals := make([]int64, len(nodes))
	for _, scores := range c.scoreNodes(nodes) {
		for i, s := range scores {
			totals[i] += s
		}
	}
	best, most := (*Node)(nil), int64(math.MinInt64)
	for i, n := range nodes {
		if totals[i] > most || totals[i] == most && (len(n.pods) < len(best.pods) || len(n.pods) == len(best.pods) && n.name < best.name) {
			best, most = n, totals[i]
		}
	}
	return best
}

// normalizeByMax maps scores to the range from 0 to maxScore, in proportion to the highest, or in reverse.
//
//upstream:pkg/scheduler/framework/plugins/helper.DefaultNormalizeScore
func normalizeByMax(scores []int64, reverse bool) {
	highest := int64(0)
	for _, s := range scores {
		highest = max(highest, s)
	}
	for i := range scores {
		if highest > 0 {
			scores[i] = maxScore * scores[i] / highest
		}
		if reverse {
			scores[i] = maxScore - scores[i]
		}
	}
}
