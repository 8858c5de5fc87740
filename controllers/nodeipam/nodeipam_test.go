package nodeipam_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

func TestMain(m *testing.M) { controllerstest.Main(m) }

// node returns a node, which may bring its CIDRs.
func node(name string, cidrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{pods.KubeletAnnotation: pods.KubeletRunning}}}
	if n.Spec.PodCIDRs = cidrs; len(cidrs) > 0 {
		n.Spec.PodCIDR = cidrs[0]
	}
	return n
}

// cidrs returns the CIDRs of each node.
func cidrs(e controllerstest.Env) map[string]string {
	e.Helper()
	nodes, has := &corev1.NodeList{}, map[string]string{}
	e.Must(e.List(e.Context(), nodes))
	for _, n := range nodes.Items {
		if has[n.Name] = strings.Join(n.Spec.PodCIDRs, " "); len(n.Spec.PodCIDRs) > 0 && n.Spec.PodCIDR != n.Spec.PodCIDRs[0] {
			e.Errorf("%s: podCIDR %s, podCIDRs %v", n.Name, n.Spec.PodCIDR, n.Spec.PodCIDRs)
		}
	}
	return has
}

// want compares the CIDRs of all nodes, after the controllers have worked.
func want(e controllerstest.Env, want map[string]string) {
	e.Helper()
	e.WaitIdle()
	if got := cidrs(e); !maps.Equal(got, want) {
		e.Errorf("nodes have the CIDRs %v, want %v", got, want)
	}
}

// TestCIDRs: nodes have CIDRs that do not overlap. A node keeps the CIDR that it brings, the CIDR of a deleted node is free again, and a
// node for which none is free gets the first one that is.
func TestCIDRs(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{ClusterCIDR: netip.MustParsePrefix("10.244.0.0/22")}, func(e controllerstest.Env) {
		want(e, map[string]string{"flyball": "10.244.0.0/24"})
		e.CreateAll(node("own", "10.244.1.128/25"), node("far", "192.168.0.0/26", "2001:db8::/64"), node("twin", "10.244.1.128/25"))
		e.WaitIdle()
		e.CreateAll(node("a"))
		e.WaitIdle()
		e.CreateAll(node("b"))
		e.WaitIdle()
		e.CreateAll(node("c"))
		has := map[string]string{"flyball": "10.244.0.0/24", "own": "10.244.1.128/25", "twin": "10.244.1.128/25", "far": "192.168.0.0/26 2001:db8::/64",
			"a": "10.244.2.0/24", "b": "10.244.3.0/24", "c": ""}
		want(e, has)
		if got := e.Events("Node", "c"); !slices.ContainsFunc(got, func(event string) bool {
			return strings.Contains(event, "CIDRNotAvailable") && strings.Contains(event, "Node c status is now: CIDRNotAvailable")
		}) {
			t.Errorf("the node without a CIDR has the events %q", got)
		}
		e.Must(e.Delete(e.Context(), node("own"))) // its twin still has the CIDR
		delete(has, "own")
		want(e, has)
		e.Must(e.Delete(e.Context(), node("a")))
		delete(has, "a")
		has["c"] = "10.244.2.0/24"
		want(e, has)
		e.Must(e.Delete(e.Context(), node("twin")))
		e.CreateAll(node("d"))
		delete(has, "twin")
		has["d"] = "10.244.1.0/24"
		want(e, has)
	})
}

// TestManyNodes: 300 nodes get CIDRs of the default cluster CIDR, and no two the same.
func TestManyNodes(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		for i := range 299 {
			e.CreateAll(node(fmt.Sprintf("node-%d", i)))
		}
		e.WaitIdle()
		nodes := map[string]int{}
		for _, cidr := range cidrs(e) {
			nodes[cidr]++
		}
		if len(nodes) != 300 || nodes[""] != 0 {
			t.Errorf("%d CIDRs, and %d nodes have none", len(nodes), nodes[""])
		}
	})
}

// TestServiceNetwork: no node is assigned a CIDR of the range of cluster IPs, even if the cluster CIDR has no other one.
func TestServiceNetwork(t *testing.T) {
	for _, c := range []struct {
		services string
		want     map[string]string
	}{
		{"10.96.0.0/24", map[string]string{"flyball": "10.96.1.0/24", "a": "10.96.2.0/24", "b": "10.96.3.0/24", "c": ""}},
		{"10.96.1.128/25", map[string]string{"flyball": "10.96.0.0/24", "a": "10.96.2.0/24", "b": "10.96.3.0/24", "c": ""}},
		{"10.0.0.0/8", map[string]string{"flyball": "", "a": "", "b": "", "c": ""}},
	} {
		o := controlplane.Options{ServiceNetwork: netip.MustParsePrefix(c.services),
			Controllers: controllers.Options{ClusterCIDR: netip.MustParsePrefix("10.96.0.0/22")}}
		controllerstest.WithControlPlane(t, o, func(e controllerstest.Env) {
			e.WaitIdle()
			for _, name := range []string{"a", "b", "c"} {
				e.CreateAll(node(name))
				e.WaitIdle()
			}
			want(e, c.want)
		})
	}
}

// TestAddresses: the pods on a node have addresses of its podCIDR, from the first one on, also if the node gets it later than the pod. If
// none is free, or the node has no CIDR, they have other addresses of the pods' network. No two pods have the same.
func TestAddresses(t *testing.T) {
	o := controllers.Options{ClusterCIDR: netip.MustParsePrefix("10.244.0.0/24")}
	controllerstest.InVirtualTime(t, o, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.PodOn("flyball", "default", "p")) // before the node has a CIDR, perhaps
		e.CreateAll(node("small", "192.168.7.0/29"), node("twin", "192.168.7.0/29"), node("none"), node("six", "2001:db8::/64"))
		for i := range 5 {
			e.CreateAll(controllerstest.PodOn("small", "default", fmt.Sprintf("small-%d", i)),
				controllerstest.PodOn("twin", "default", fmt.Sprintf("twin-%d", i)))
		}
		e.CreateAll(controllerstest.PodOn("none", "default", "none"), controllerstest.PodOn("six", "default", "six"))
		e.WaitIdle()
		list, seen, in := &corev1.PodList{}, map[string]bool{}, map[string]int{}
		e.Must(e.List(e.Context(), list))
		for _, p := range list.Items {
			if seen[p.Status.PodIP] || p.Status.PodIP == "" {
				t.Fatalf("%s has the address %q", p.Name, p.Status.PodIP)
			}
			seen[p.Status.PodIP] = true
			for _, network := range []string{"10.244.0.0/24", "192.168.7.0/29", "10.128.0.0/16"} {
				if netip.MustParsePrefix(network).Contains(netip.MustParseAddr(p.Status.PodIP)) {
					in[p.Spec.NodeName+" "+network]++
				}
			}
		}
		if small := in["small 192.168.7.0/29"] + in["twin 192.168.7.0/29"]; in["flyball 10.244.0.0/24"] != 1 || small != 6 ||
			in["small 10.128.0.0/16"]+in["twin 10.128.0.0/16"] != 4 || in["none 10.128.0.0/16"] != 1 || in["six 10.128.0.0/16"] != 1 {
			t.Errorf("addresses by node and network: %v", in)
		}
	})
}

// TestRestart: a controller that starts assigns no CIDR that a node has already.
func TestRestart(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		stop := e.StartController("node-ipam-controller", controllers.Options{})
		e.CreateAll(node("first"))
		want(e, map[string]string{"first": "10.244.0.0/24"})
		stop()
		e.CreateAll(node("a"), node("b", "10.244.1.0/24"))
		defer e.StartController("node-ipam-controller", controllers.Options{})()
		want(e, map[string]string{"first": "10.244.0.0/24", "a": "10.244.2.0/24", "b": "10.244.1.0/24"})
	})
}

// TestRefusedWrite: a write that is refused is an event, and is repeated with the same CIDR.
func TestRefusedWrite(t *testing.T) {
	refused := 0
	funcs := func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.Node); ok && refused < 5 {
				refused++
				return errors.New("refused by a test")
			}
			return c.Patch(ctx, o, patch, opts...)
		}}
	}
	controllerstest.WithController(t, "node-ipam-controller", funcs, func(e controllerstest.Env) {
		e.CreateAll(node("a"))
		time.Sleep(time.Minute)
		want(e, map[string]string{"a": "10.244.0.0/24"})
		if got := e.Events("Node", "a"); refused != 5 || !strings.Contains(strings.Join(got, "\n"), "CIDRAssignmentFailed") {
			t.Errorf("after %d refusals: %q", refused, got)
		}
	})
}

// TestFaults creates and deletes nodes while writes of the controller fail and it restarts.
func TestFaults(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		step := 0
		e.RunWithFaults("node-ipam-controller", 1, func() {
			if step++; step <= 100 {
				e.CreateAll(node(fmt.Sprintf("node-%d", step)))
			}
			if step > 50 && step <= 90 {
				e.Must(e.Delete(e.Context(), node(fmt.Sprintf("node-%d", step-40))))
			}
		}, func() bool { return step > 150 })
		seen := map[string]bool{}
		for name, cidr := range cidrs(e) {
			if cidr == "" || seen[cidr] {
				t.Errorf("%s has the CIDR %q", name, cidr)
			}
			seen[cidr] = true
		}
	})
}

// TestWrongClusterCIDR: a cluster CIDR without room for a node is an error.
func TestWrongClusterCIDR(t *testing.T) {
	for _, cidr := range []string{"10.244.0.0/25", "2001:db8::/48"} {
		_, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: controllers.Options{ClusterCIDR: netip.MustParsePrefix(cidr)}})
		if err == nil || !strings.Contains(err.Error(), "the cluster CIDR "+cidr) {
			t.Errorf("%s: %v", cidr, err)
		}
	}
}
