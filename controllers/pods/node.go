package pods

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/nodestate"
)

// NodeName is the name of the node of a control plane with one node.
const NodeName = "flyball"

// KubeletAnnotation is the annotation of a node that says whether the control plane simulates the kubelet of the node:
// [KubeletRunning] or [KubeletStopped].
const KubeletAnnotation = "flyball.dev/kubelet"

// kwokAnnotation is the annotation by which kwok recognizes its nodes. The value fake is the same as [KubeletRunning].
const kwokAnnotation = "kwok.x-k8s.io/node"

// The values of [KubeletAnnotation]. A kubelet that is stopped renews the lease of its node no longer, so that the node
// becomes unreachable. A kubelet that runs again continues with the pods on its node.
const (
	KubeletRunning = "running"
	KubeletStopped = "stopped"
)

// Nodes returns n nodes for [Options.Nodes]: flyball, flyball-2, flyball-3 and so on. The list is not nil.
func Nodes(n int) []corev1.Node {
	list := make([]corev1.Node, n)
	for i := range list {
		list[i].Name = NodeName
		if i > 0 {
			list[i].Name = fmt.Sprintf("%s-%d", NodeName, i+1)
		}
	}
	return list
}

// Simulates reports whether the control plane simulates the kubelet of a node, which may be stopped.
func (o *Options) Simulates(node *corev1.Node) bool {
	switch node.Annotations[KubeletAnnotation] {
	case KubeletRunning, KubeletStopped:
		return true
	}
	return o.AllNodes || node.Annotations[kwokAnnotation] == "fake" || slices.ContainsFunc(o.nodes(), func(n corev1.Node) bool { return n.Name == node.Name })
}

// SimulatesAddress reports whether an address is in the network of the pods.
func (o *Options) SimulatesAddress(ip netip.Addr) bool { return o.network().Contains(ip) }

// runs reports whether the control plane simulates the kubelet of a node, and the kubelet is not stopped.
func (o *Options) runs(node *corev1.Node) bool {
	return o.Simulates(node) && node.Annotations[KubeletAnnotation] != KubeletStopped
}

// nodes returns the nodes that exist from the start.
func (o *Options) nodes() []corev1.Node {
	if o.Nodes == nil {
		return Nodes(1)
	}
	return o.Nodes
}

// RegisteredNodes returns the nodes that exist from the start, as their kubelets register them. The nodes are ready since
// now. RegisteredNodes returns an error if two nodes have the same name.
//
//upstream:pkg/kubelet.Kubelet.initialNode
func (o *Options) RegisteredNodes(now time.Time) ([]*corev1.Node, error) {
	var list []*corev1.Node
	names, free := map[string]bool{}, newAddresses(nodeNetwork)
	for _, n := range o.nodes() {
		if names[n.Name] {
			return nil, fmt.Errorf("two nodes have the name %q", n.Name)
		}
		names[n.Name] = true
		free.occupy(nodeRequest(n.Name).NamespacedName, internalIP(&n), netip.Prefix{})
		list = append(list, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:          n.Name,
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
				Labels:        maps.Clone(n.Labels), Annotations: maps.Clone(n.Annotations), Finalizers: slices.Clone(n.Finalizers),
			},
			Spec: *n.Spec.DeepCopy(), Status: *n.Status.DeepCopy(),
		})
	}
	for _, n := range list {
		if n.Annotations[KubeletAnnotation] == "" {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, KubeletAnnotation, KubeletRunning)
		}
		register(n)
		nodestate.SetDeprecatedLabels(n) // as the controller of nodes would
		n.Status.Conditions = nil
		n.Status = nodeStatus(n, addressOf(n, free), now)
	}
	return list, nil
}

// register adds the labels with which a kubelet registers its node, unless the node has them.
//
//upstream:pkg/kubelet.Kubelet.updateDefaultLabels
func register(node *corev1.Node) (changed bool) {
	for key, value := range map[string]string{corev1.LabelHostname: node.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"} {
		if _, ok := node.Labels[key]; !ok {
			metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
			changed = true
		}
	}
	return changed
}

// Capacity returns the default capacity of a node.
func Capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("10k"),
		corev1.ResourceMemory:           resource.MustParse("64Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("64Ti"),
		corev1.ResourcePods:             resource.MustParse("1M"),
	}
}

// setResources adds the resources that each kubelet reports, where the capacity lacks them, and makes the allocatable resources follow the
// capacity: each resource is allocatable, at most as much as there is, and an extended resource that is gone is not.
//
//upstream:pkg/kubelet/nodestatus.MachineInfo
func setResources(s *corev1.NodeStatus) {
	if len(s.Capacity) == 0 {
		s.Capacity = s.Allocatable.DeepCopy()
	}
	all := Capacity()
	maps.Copy(all, s.Capacity)
	s.Capacity = all
	allocatable := s.Capacity.DeepCopy()
	for name, q := range s.Allocatable {
		has, ok := s.Capacity[name]
		if ok && q.Cmp(has) < 0 || !ok && !isExtended(name) {
			allocatable[name] = q
		}
	}
	s.Allocatable = allocatable
}

// isExtended reports whether a resource is an extended one.
//
//upstream:pkg/apis/core/v1/helper.IsExtendedResourceName
func isExtended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// nodeStatus returns the status of a node that runs. The node keeps its resources and its addresses, and gets what it lacks.
// address is its internal address if it has none, or if another node has the same.
//
//upstream:pkg/kubelet.Kubelet.setNodeStatus
func nodeStatus(node *corev1.Node, address string, now time.Time) corev1.NodeStatus {
	s := *node.Status.DeepCopy()
	setResources(&s)
	if address != internalIP(node) {
		s.Addresses = slices.DeleteFunc(s.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
		s.Addresses = slices.Insert(s.Addresses, 0, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	if !slices.ContainsFunc(s.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeHostName }) {
		s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: node.Name})
	}
	info := &s.NodeInfo
	info.OperatingSystem = cmp.Or(info.OperatingSystem, node.Labels[corev1.LabelOSStable], "linux")
	info.Architecture = cmp.Or(info.Architecture, node.Labels[corev1.LabelArchStable], "amd64")
	info.KubeletVersion = cmp.Or(info.KubeletVersion, "flyball")
	info.ContainerRuntimeVersion = cmp.Or(info.ContainerRuntimeVersion, "flyball://")
	setHealthy(&s, metav1.NewTime(now))
	return s
}

// healthy are the conditions of a node that runs.
//
//upstream:pkg/kubelet/nodestatus.MemoryPressureCondition
//upstream:pkg/kubelet/nodestatus.DiskPressureCondition
//upstream:pkg/kubelet/nodestatus.PIDPressureCondition
//upstream:pkg/kubelet/nodestatus.ReadyCondition
var healthy = []corev1.NodeCondition{
	{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
	{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
	{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
	{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
}

// setHealthy makes a node ready, and adds the other conditions. A condition that a user has set to True or False stays.
func setHealthy(s *corev1.NodeStatus, now metav1.Time) {
	for _, c := range healthy {
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		i := slices.IndexFunc(s.Conditions, func(o corev1.NodeCondition) bool { return o.Type == c.Type })
		switch {
		case i < 0:
			s.Conditions = append(s.Conditions, c)
		case s.Conditions[i].Status == corev1.ConditionUnknown, c.Type == corev1.NodeReady && s.Conditions[i].Status != corev1.ConditionTrue:
			s.Conditions[i] = c
		}
	}
}

// setHeartbeats sets the heartbeats of the conditions that a kubelet posts.
func setHeartbeats(s *corev1.NodeStatus, now metav1.Time) {
	for i := range s.Conditions {
		if slices.ContainsFunc(healthy, func(c corev1.NodeCondition) bool { return c.Type == s.Conditions[i].Type }) {
			s.Conditions[i].LastHeartbeatTime = now
		}
	}
}

// internalIP returns the first internal address of a node, or "".
func internalIP(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}
