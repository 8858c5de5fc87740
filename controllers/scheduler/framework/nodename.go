package framework

import "k8s.io/apimachinery/pkg/util/sets"

// nodeName admits a pod to the node that it names.
//
//upstream:pkg/scheduler/framework/plugins/nodename.NodeName.Filter
type nodeName struct{}

var wrongNode = unresolvable("NodeName", "node(s) didn't match the requested node name")

func (*nodeName) name() string { return "NodeName" }

//upstream:pkg/scheduler/framework/plugins/nodename.NodeName.PreFilter
func (*nodeName) preFilter(c *cycle) preFilterResult {
	if c.pod.Spec.NodeName == "" {
		return preFilterResult{skip: true}
	}
	return preFilterResult{nodes: sets.New(c.pod.Spec.NodeName)}
}

func (*nodeName) filter(c *cycle, n *Node) *Status {
	if c.pod.Spec.NodeName != n.name {
		return wrongNode
	}
	return nil
}
