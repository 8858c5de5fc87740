package framework

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Decision is the outcome of an attempt to schedule a pod.
type Decision struct {
	// Node is the name of the node for the pod, or empty if the pod fits on none.
	Node string
	// Volumes are what has to be bound and provisioned before the pod is bound. Nil means nothing.
	Volumes *Volumes
	// Message says why the pod fits on no node, in kube-scheduler's words.
	Message string
	// Error is why there is no decision. It is not about nodes.
	Error error
	// Plugins are the plugins that rejected nodes.
	Plugins []string
	// Nomination is the node that the pod waits for, or empty if it waits for none. If it is nil, the pod waits for the same
	// node as before.
	Nomination *string
	// Victims are the pods to evict from that node.
	Victims []*Pod
}

// NoNodes is the message if there are no nodes.
//
//upstream:pkg/scheduler.ErrNoNodesAvailable
const NoNodes = "no nodes available to schedule pods"

// Schedule selects a node for a pod.
//
//upstream:pkg/scheduler.Scheduler.schedulePod
//upstream:pkg/scheduler.Scheduler.schedulingAlgorithm
func (s *Snapshot) Schedule(pod *corev1.Pod) Decision {
	none := ""
	if len(s.list) == 0 {
		return Decision{Message: NoNodes, Nomination: &none}
	}
	c, failed := s.newCycle(pod)
	if failed != nil {
		return c.postFilter(nil, failed.Reasons[0], "")
	}
	only, plugins, status := c.preFilter()
	if status != nil {
		if status.err != nil {
			return Decision{Error: fmt.Errorf("running PreFilter plugin %q: %w", status.Plugin, status.err), Nomination: &none}
		}
		d := c.postFilter(nil, strings.Join(status.Reasons, ", "), "")
		if d.Plugins = plugins; status.Plugin != "" {
			d.Plugins = append(plugins, status.Plugin)
		}
		return d
	}
	statuses := map[*Node]*Status{}
	if n := s.nodes[pod.Status.NominatedNodeName]; n != nil && n.Node != nil {
		status := c.filter(n)
		if status == nil {
			return c.decide(n)
		}
		if status.err == nil {
			statuses[n], plugins = status, append(plugins, status.Plugin) // kube-scheduler names the plugin below too
		}
	}
	nodes, absent := s.list, ""
	if only != nil {
		nodes = slices.DeleteFunc(slices.Clone(s.list), func(n *Node) bool { return !only.Has(n.name) })
		slices.Sort(plugins)
		plugins = slices.Compact(plugins)
		absent = "node(s) didn't satisfy plugin(s) [" + strings.Join(plugins, " ") + "]"
	}
	feasible, err := c.feasible(nodes, statuses)
	switch {
	case err != nil:
		return Decision{Error: err, Nomination: &none}
	case len(feasible) > 0:
		return c.decide(c.best(feasible))
	}
	d := c.postFilter(statuses, "", absent)
	d.Plugins = plugins
	for _, status := range statuses {
		if !slices.Contains(d.Plugins, status.Plugin) {
			d.Plugins = append(d.Plugins, status.Plugin)
		}
	}
	return d
}

// newCycle returns a cycle for a pod, or the status of a pod that cannot be parsed.
func (s *Snapshot) newCycle(pod *corev1.Pod) (*cycle, *Status) {
	info, err := newPod(pod)
	c := &cycle{Snapshot: s, pod: pod, info: info}
	if err != nil {
		return c, unresolvable("InterPodAffinity", fmt.Sprintf("parsing pod: %v", err))
	}
	return c, nil
}

// decide returns the decision for a node.
func (c *cycle) decide(n *Node) Decision { return Decision{Node: n.name, Volumes: c.volumes.on(c, n)} }

// feasible returns nodes that the pod fits on, and adds the statuses of the nodes that it does not fit on. In a large cluster it
// stops when it has found enough of them, and the next attempt goes on from there.
//
//upstream:pkg/scheduler.Scheduler.findNodesThatPassFilters
func (c *cycle) feasible(nodes []*Node, statuses map[*Node]*Status) ([]*Node, error) {
	enough, start := enoughNodes(len(nodes)), 0
	if len(nodes) > 0 {
		start = c.next % len(nodes)
	}
	feasible, seen := make([]*Node, 0, enough), 0
	for ; seen < len(nodes) && len(feasible) < enough; seen++ {
		n := nodes[(start+seen)%len(nodes)]
		switch status := c.filter(n); {
		case status == nil:
			feasible = append(feasible, n)
		case status.err != nil:
			return nil, status.err
		default:
			statuses[n] = status
		}
	}
	c.next = (c.next + seen) % len(c.list)
	return feasible, nil
}

// enoughNodes returns how many nodes of a number are worth scoring.
//
//upstream:pkg/scheduler.Scheduler.numFeasibleNodesToFind
func enoughNodes(nodes int) int {
	if nodes < 100 {
		return nodes
	}
	return max(nodes*max(50-nodes/125, 5)/100, 100)
}

// postFilter returns the decision for a pod that fits on no node, after it has looked for victims. It does not look for any if
// the reason is common to all nodes: the first plugin that looks, DynamicResources, then fails with the message "not found", because
// it was not prepared.
//
//upstream:pkg/scheduler/framework/runtime.frameworkImpl.RunPostFilterPlugins
//upstream:pkg/scheduler/framework/plugins/dynamicresources.DynamicResources.PostFilter
func (c *cycle) postFilter(statuses map[*Node]*Status, common, absent string) Decision {
	if common != "" {
		return Decision{Message: fitError(len(c.list), nil, "", common, "not found")}
	}
	node, victims, nomination, message := c.preempt(statuses)
	d := Decision{Message: fitError(len(c.list), statuses, absent, "", message), Nomination: nomination}
	if node != nil {
		d.Nomination, d.Victims = &node.name, victims
	}
	return d
}

func byName(a, b *Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
