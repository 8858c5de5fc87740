package pods

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controllers/pods/shell"
)

// clusterDomain is the domain of the names of services and pods.
const clusterDomain = "cluster.local"

// listen listens on a port of the pod of a process.
func (r *reconciler) listen(p *runtime.Process, port int32) (shell.Listener, error) {
	l, err := r.options.Handlers.ListenAs(p, port)
	if err != nil {
		return nil, err
	}
	return shellListener{l}, nil
}

// shellListener is a listener as the shell takes it.
type shellListener struct{ net.Listener }

func (l shellListener) Accept() (io.ReadWriteCloser, error) { return l.Listener.Accept() }

// dial connects a process to a port of the network of pods and services. Nothing else can be reached.
func (r *reconciler) dial(ctx context.Context, p *runtime.Process, host string, port int32) (io.ReadWriteCloser, error) {
	pod, port, err := r.reach(ctx, p.Pod, strings.TrimSuffix(strings.ToLower(host), "."), port)
	if err != nil {
		return nil, err
	}
	return r.options.Handlers.Dial(ctx, pod, port)
}

// reach returns the pod and its port that an address or a name leads to, for a client in a pod. It is the stand-in for
// kube-proxy and the DNS server of a cluster.
func (r *reconciler) reach(ctx context.Context, from *corev1.Pod, host string, port int32) (*corev1.Pod, int32, error) {
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "localhost" || err == nil && ip.IsLoopback():
		return from, port, nil
	case err == nil:
		return r.reachAddress(ctx, from, ip.String(), port)
	}
	unknown := fmt.Errorf("lookup %s: %w", host, shell.ErrUnknownHost)
	name, inPods := strings.CutSuffix(strings.TrimSuffix(host, "."+clusterDomain), ".pod")
	if inPods {
		dashed, _, _ := strings.Cut(name, ".")
		if ip, err := netip.ParseAddr(strings.ReplaceAll(dashed, "-", ".")); err == nil {
			return r.reachAddress(ctx, from, ip.String(), port)
		}
		return nil, 0, unknown
	}
	parts := strings.Split(strings.TrimSuffix(name, ".svc"), ".")
	key := types.NamespacedName{Namespace: from.Namespace, Name: parts[0]}
	hostname := ""
	switch len(parts) {
	case 1:
	case 2:
		key.Namespace = parts[1]
	case 3:
		hostname, key.Name, key.Namespace = parts[0], parts[1], parts[2]
	default:
		return nil, 0, unknown
	}
	service := &corev1.Service{}
	if err := r.client.Get(ctx, key, service); err != nil || service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, 0, unknown
	}
	return r.reachService(ctx, from, service, hostname, port)
}

// reachAddress returns the pod with an address, or a pod of the service with an address.
func (r *reconciler) reachAddress(ctx context.Context, from *corev1.Pod, address string, port int32) (*corev1.Pod, int32, error) {
	if key, ok := r.addresses.owner(address); ok {
		pod := &corev1.Pod{}
		if err := r.client.Get(ctx, key, pod); err != nil {
			return nil, 0, refused(address, port)
		}
		return pod, port, nil
	}
	isNode := r.nodes.hasAddress(address)
	all := &corev1.ServiceList{}
	if err := r.client.List(ctx, all); err != nil {
		return nil, 0, err
	}
	for i := range all.Items {
		s := &all.Items[i]
		if slices.Contains(s.Spec.ClusterIPs, address) {
			return r.reachService(ctx, from, s, "", port)
		}
		for _, p := range s.Spec.Ports {
			if isNode && p.NodePort == port && p.Protocol == corev1.ProtocolTCP {
				return r.reachService(ctx, from, s, "", p.Port)
			}
		}
	}
	return nil, 0, refused(address, port)
}

// reachService returns a ready pod of a service. A headless service has all ports of its pods.
func (r *reconciler) reachService(ctx context.Context, from *corev1.Pod, s *corev1.Service, hostname string, port int32) (*corev1.Pod, int32, error) {
	target := &corev1.ServicePort{Port: port, TargetPort: intstr.FromInt32(port)}
	if !endpoints.Headless(s) {
		i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port && p.Protocol == corev1.ProtocolTCP })
		if i < 0 {
			return nil, 0, refused(s.Spec.ClusterIP, port)
		}
		target = &s.Spec.Ports[i]
	}
	if !endpoints.Selects(s) {
		return nil, 0, refused(s.Name, port)
	}
	all, err := endpoints.Pods(ctx, r.client, s)
	if err != nil {
		return nil, 0, err
	}
	all = slices.DeleteFunc(all, func(p *corev1.Pod) bool {
		return p.Status.PodIP == "" || podstate.Finished(p) || !podstate.Ready(p) && !s.Spec.PublishNotReadyAddresses ||
			hostname != "" && (p.Spec.Hostname != hostname || p.Spec.Subdomain != s.Name)
	})
	if len(all) == 0 {
		return nil, 0, refused(s.Name, port)
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	chosen := rand.IntN(len(all))
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		h := fnv.New32a()
		h.Write([]byte(from.Status.PodIP))
		chosen = int(h.Sum32() % uint32(len(all)))
	}
	number, ok := endpoints.TargetPort(all[chosen], target)
	if !ok {
		return nil, 0, refused(s.Name, port)
	}
	return all[chosen], number, nil
}

func refused(host string, port int32) error {
	return fmt.Errorf("connect to %s port %d: %w", host, port, syscall.ECONNREFUSED)
}
