package framework

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
)

// hostPort is a port of the host that a container uses.
type hostPort struct {
	ip       string
	protocol corev1.Protocol
	port     int32
}

// allAddresses is the address of a host port without one.
//
//upstream:k8s.io/kube-scheduler/framework.DefaultBindAllHostIP
const allAddresses = "0.0.0.0"

// hostPorts returns the host ports of the containers and sidecars of a pod.
//
//upstream:pkg/scheduler/util.GetHostPorts
func hostPorts(spec *corev1.PodSpec) (ports []hostPort) {
	use := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				ports = append(ports, hostPort{cmp.Or(p.HostIP, allAddresses), cmp.Or(p.Protocol, corev1.ProtocolTCP), p.HostPort})
			}
		}
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; podstate.IsSidecar(c) {
			use(c)
		}
	}
	for i := range spec.Containers {
		use(&spec.Containers[i])
	}
	return ports
}

// conflicts reports whether two pods on a host cannot use two ports.
//
//upstream:k8s.io/kube-scheduler/framework.HostPortInfo.CheckConflict
func (p hostPort) conflicts(o hostPort) bool {
	return p.port == o.port && p.protocol == o.protocol && (p.ip == o.ip || p.ip == allAddresses || o.ip == allAddresses)
}
