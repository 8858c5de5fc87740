package pods_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	audit "k8s.io/apiserver/pkg/apis/audit/v1"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// node returns a node with an annotation for its kubelet, unless that is empty.
func node(name, kubelet string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if kubelet != "" {
		n.Annotations = map[string]string{pods.KubeletAnnotation: kubelet}
	}
	return n
}

// describe describes a node: whether it is ready, its address and CPUs, and whether it has a lease.
func describe(e controllerstest.Env, name string) string {
	e.Helper()
	n, lease := &corev1.Node{}, &coordinationv1.Lease{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Name: name}, n))
	ready, address := "no condition", "no address"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = string(c.Status)
		}
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
		}
	}
	leased := "no lease"
	if err := e.Get(e.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}, lease); client.IgnoreNotFound(err) != nil {
		e.Fatal(err)
	} else if err == nil {
		leased = "lease"
	}
	return strings.Join([]string{ready, address, n.Status.Capacity.Cpu().String(), n.Labels[corev1.LabelHostname], leased}, ", ")
}

// TestNodes: the nodes of the options exist at once, and those that users create are served if they have the annotation.
func TestNodes(t *testing.T) {
	small := append(pods.Nodes(3), *node("exported", ""))
	small[3].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.18.0.3"}}
	small[1].Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	small[2].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Nodes: small}}, func(e controllerstest.Env) {
		check := func(name, want string) {
			t.Helper()
			if got := describe(e, name); got != want {
				t.Errorf("%s is %s; want %s", name, got, want)
			}
		}
		const first = "True, 10.0.0.2, 10k, flyball, "
		if got := describe(e, "flyball"); got != first+"lease" && got != first+"no lease" { // the lease follows soon
			t.Errorf("flyball is %s at once; want %s", got, first)
		}
		e.WaitIdle()
		check("exported", "True, 172.18.0.3, 10k, exported, lease")
		check("flyball", "True, 10.0.0.2, 10k, flyball, lease")
		check("flyball-2", "True, 10.0.0.3, 2, flyball-2, lease")
		check("flyball-3", "True, 10.0.0.1, 10k, flyball-3, lease")

		own, same, foreign := node("own", pods.KubeletRunning), node("same", pods.KubeletRunning), node("foreign", "")
		same.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.3"}}
		elsewhere := node("elsewhere", pods.KubeletRunning)
		elsewhere.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.7"}}
		e.CreateAll(own, same, foreign, node("stopped", pods.KubeletStopped), elsewhere,
			controllerstest.PodOn("own", "default", "on-own"), controllerstest.PodOn("foreign", "default", "on-foreign"))
		e.WaitIdle()
		check("elsewhere", "True, 192.0.2.7, 10k, elsewhere, lease")
		check("foreign", "no condition, no address, 0, , no lease")
		check("stopped", "no condition, no address, 0, , no lease")
		addresses := map[string]bool{}
		for _, name := range []string{"own", "same"} {
			address := strings.Split(describe(e, name), ", ")[1]
			if addresses[address] || !slices.Contains([]string{"10.0.0.4", "10.0.0.5"}, address) {
				t.Errorf("%s has the address %s", name, address)
			}
			addresses[address] = true
		}
		e.WantStates("on-own", "Running, Running")
		e.WantStates("on-foreign", "Pending")
		if p := e.Pod("on-own"); !addresses[p.Status.HostIP] {
			t.Errorf("the pod is on the host %s", p.Status.HostIP)
		}

		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(foreign), foreign))
		foreign.Annotations = map[string]string{pods.KubeletAnnotation: pods.KubeletRunning}
		e.Must(e.Update(e.Context(), foreign))
		e.WaitIdle()
		check("foreign", "True, 10.0.0.6, 10k, foreign, lease")
		e.WantStates("on-foreign", "Running, Running")

		e.Must(e.Delete(e.Context(), node("flyball-2", "")))
		e.Must(e.Delete(e.Context(), node("foreign", "")))
		e.WaitIdle()
		list := &corev1.NodeList{}
		e.Must(e.List(e.Context(), list))
		if len(list.Items) != 7 {
			t.Errorf("there are %d nodes after the deletion of two", len(list.Items))
		}
	})
}

// TestNodesAreInvalid: a control plane with invalid nodes does not start, and says why.
func TestNodesAreInvalid(t *testing.T) {
	for _, tt := range []struct {
		nodes []corev1.Node
		want  string
	}{
		{[]corev1.Node{*node("a", ""), *node("a", "")}, `two nodes have the name "a"`},
		{[]corev1.Node{*node("A", "")}, `nodes A: Node "A" is invalid: metadata.name: Invalid value: "A"`},
		{[]corev1.Node{{}}, `nodes : Node "" is invalid: metadata.name: Required value: name or generateName is required`},
	} {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: controllers.Options{Pods: pods.Options{Nodes: tt.nodes}}})
		if err == nil {
			plane.Stop()
		}
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// TestResources: a node has what each kubelet reports, and the allocatable resources follow the capacity.
func TestResources(t *testing.T) {
	list := func(of string) corev1.ResourceList {
		resources := corev1.ResourceList{}
		for _, pair := range strings.Fields(of) {
			name, q, _ := strings.Cut(pair, "=")
			resources[corev1.ResourceName(name)] = resource.MustParse(q)
		}
		return resources
	}
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		const rest = " memory=64Ti ephemeral-storage=64Ti pods=1M"
		for i, tt := range []struct{ capacity, allocatable, wantCapacity, wantAllocatable string }{
			{"", "", "cpu=10k" + rest, "cpu=10k" + rest},
			{"cpu=2", "", "cpu=2" + rest, "cpu=2" + rest},
			{"", "cpu=2 example.com/gpu=1", "cpu=2 example.com/gpu=1" + rest, "cpu=2 example.com/gpu=1" + rest},
			{"cpu=2 example.com/gpu=4", "cpu=1 example.com/gpu=3", "cpu=2 example.com/gpu=4" + rest, "cpu=1 example.com/gpu=3" + rest},
			{"cpu=2 pods=0", "cpu=3", "cpu=2 memory=64Ti ephemeral-storage=64Ti pods=0", "cpu=2 memory=64Ti ephemeral-storage=64Ti pods=0"},
			{"cpu=2", "example.com/gpu=3 hugepages-2Mi=2Mi", "cpu=2" + rest, "cpu=2 hugepages-2Mi=2Mi" + rest},
		} {
			n := node(fmt.Sprint("n", i), pods.KubeletRunning)
			n.Status.Capacity, n.Status.Allocatable = list(tt.capacity), list(tt.allocatable)
			e.CreateAll(n)
			e.WaitIdle()
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(n), n))
			if got := n.Status.Capacity; !equality.Semantic.DeepEqual(got, list(tt.wantCapacity)) {
				t.Errorf("%+v: the capacity is %v", tt, got)
			}
			if got := n.Status.Allocatable; !equality.Semantic.DeepEqual(got, list(tt.wantAllocatable)) {
				t.Errorf("%+v: allocatable are %v", tt, got)
			}
		}
	})
}

// TestFakeNode: the stand-in serves the nodes of kwok.
func TestFakeNode(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Nodes: []corev1.Node{}}}, func(e controllerstest.Env) {
		n := node("fake", "")
		n.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
		e.CreateAll(n, controllerstest.Pod("web", "a"))
		e.WaitIdle()
		if got, want := describe(e, "fake"), "True, 10.0.0.1, 10k, fake, lease"; got != want {
			t.Errorf("the node is %s; want %s", got, want)
		}
		e.WantStates("web", "Running, Running")
	})
}

// TestExtendedResource: a user advertises an extended resource in the capacity of a node, and takes it back.
func TestExtendedResource(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		advertise := func(dongles string) {
			t.Helper()
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"capacity":{"example.com/dongle":`+dongles+`}}}`))
			e.Must(e.Status().Patch(e.Context(), node(pods.NodeName, ""), patch))
			e.WaitIdle()
		}
		using := func(name string) *corev1.Pod {
			return controllerstest.Pod(name, "a", func(s *corev1.PodSpec) {
				s.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/dongle": resource.MustParse("3")}
			})
		}
		e.CreateAll(using("first"))
		e.WaitIdle()
		const none = "Pending Unschedulable: 0/1 nodes are available: 1 Insufficient example.com/dongle. preemption: 0/1 nodes are available: "
		e.WantScheduled("first", none+"1 Preemption is not helpful for scheduling.")
		advertise(`"4"`)
		e.WantScheduled("first", controllerstest.OnFlyball)
		e.CreateAll(using("second"))
		e.WaitIdle()
		e.WantScheduled("second", none+"1 No preemption victims found for incoming pod.")
		advertise("null")
		n := &corev1.Node{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Name: pods.NodeName}, n))
		if _, ok := n.Status.Allocatable["example.com/dongle"]; ok {
			t.Errorf("allocatable are %v", n.Status.Allocatable)
		}
		e.WantScheduled("first", controllerstest.OnFlyball)
	})
}

// TestKubeletStops: a node with a kubelet that stops keeps its pods as they are, and the kubelet goes on later.
func TestKubeletStops(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{AllNodes: true}}, func(e controllerstest.Env) {
		set := func(value string) {
			e.Must(e.Patch(e.Context(), node("n", ""), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, pods.KubeletAnnotation, value))))
			e.WaitIdle()
		}
		e.CreateAll(node("n", ""), controllerstest.PodOn("n", "default", "before"))
		e.WaitIdle()
		e.WantStates("before", "Running, Running")
		set(pods.KubeletStopped)
		e.CreateAll(controllerstest.PodOn("n", "default", "after"))
		e.Must(e.Delete(e.Context(), e.Pod("before")))
		time.Sleep(time.Minute) // virtual
		e.WantStates("after", "Pending")
		e.WantStates("before", "Running, Running")
		set(pods.KubeletRunning)
		e.WantStates("after", "Running, Running")
		e.WantPodNames("after")
	})
}

// TestNodeIdentities: each kubelet makes its writes as its own user, which the node authorizer and NodeRestriction allow.
func TestNodeIdentities(t *testing.T) {
	for _, mode := range []string{"RBAC", "Node,RBAC"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "log")
			if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, omitStages: [RequestReceived]}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			o := controlplane.Options{AuthorizationMode: mode, Audit: auditlog.Options{PolicyFile: policy, LogPath: log},
				Controllers: controllers.Options{Pods: pods.Options{Nodes: pods.Nodes(2)}}}
			controllerstest.WithControlPlane(t, o, func(e controllerstest.Env) {
				e.CreateAll(node("own", pods.KubeletRunning), controllerstest.PodOn("own", "default", "a"), controllerstest.PodOn("flyball-2", "default", "b"))
				e.WaitIdle()
				e.WantStates("a", "Running, Running")
				e.WantStates("b", "Running, Running")
				e.Must(e.Delete(e.Context(), e.Pod("b")))
				e.WaitIdle()
				e.WantPodNames("a")
			})
			got := nodeWrites(t, log)
			want := []string{
				"system:node:flyball create leases/flyball",
				"system:node:flyball-2 create leases/flyball-2", "system:node:flyball-2 delete pods/b", "system:node:flyball-2 update pods/b/status",
				"system:node:own create leases/own", "system:node:own update leases/own", "system:node:own patch nodes/own", "system:node:own patch nodes/own/status", "system:node:own update pods/a/status",
			}
			for _, w := range want {
				if !slices.Contains(got, w) && !strings.Contains(w, "update leases") {
					t.Errorf("there is no write %q", w)
				}
			}
			for _, g := range got {
				if !slices.Contains(want, g) && !strings.Contains(g, "update leases") {
					t.Errorf("there is a write %q", g)
				}
			}
		})
	}
}

// nodeWrites returns the successful writes of nodes in an audit log, without events.
func nodeWrites(t *testing.T, log string) []string {
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range bytes.Lines(data) {
		var e audit.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(e.User.Username, "system:node:") || !slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) || e.ObjectRef.Resource == "events" {
			continue
		}
		if e.ResponseStatus.Code == http.StatusConflict {
			continue // the controller of nodes was faster
		}
		if e.ResponseStatus.Code >= 400 && e.ResponseStatus.Code != http.StatusNotFound {
			t.Errorf("%s may not %s %s: %s", e.User.Username, e.Verb, e.RequestURI, e.ResponseStatus.Message)
		}
		what := path.Join(e.ObjectRef.Resource, e.ObjectRef.Name, e.ObjectRef.Subresource)
		all = append(all, fmt.Sprint(e.User.Username, " ", e.Verb, " ", what))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
