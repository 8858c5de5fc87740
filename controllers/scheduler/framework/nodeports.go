package framework

// nodePorts rejects nodes that have a pod with a host port of the pod.
//
//upstream:pkg/scheduler/framework/plugins/nodeports.NodePorts.Filter
type nodePorts struct{}

var portsInUse = rejected("NodePorts", "node(s) didn't have free ports for the requested pod ports")

func (*nodePorts) name() string { return "NodePorts" }

//upstream:pkg/scheduler/framework/plugins/nodeports.NodePorts.PreFilter
func (*nodePorts) preFilter(c *cycle) preFilterResult {
	return preFilterResult{skip: len(c.info.ports) == 0}
}

func (*nodePorts) filter(c *cycle, n *Node) *Status {
	for _, p := range c.info.ports {
		for used := range n.ports {
			if p.conflicts(used) {
				return portsInUse
			}
		}
	}
	return nil
}
