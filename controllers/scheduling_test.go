package controllers_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// one is a pod with one container.
func one(name, image string, change ...func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: template(image).Spec}
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

func requesting(cpu string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

func (e env) pod(name string) *corev1.Pod {
	e.Helper()
	p := &corev1.Pod{}
	e.must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: name}, p))
	return p
}

// scheduled returns the phase of a pod and its node, or why it is unschedulable.
func (e env) scheduled(name string) string {
	e.Helper()
	p := e.pod(name)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s %s: %s", p.Status.Phase, c.Reason, c.Message)
		}
	}
	return fmt.Sprintf("%s on %q", p.Status.Phase, p.Spec.NodeName)
}

func (e env) wantScheduled(name, want string) {
	e.Helper()
	if got := e.scheduled(name); got != want {
		e.Errorf("%s is %s\nwant %s", name, got, want)
	}
}

func (e env) changeNode(name string, change func(*corev1.Node)) {
	e.Helper()
	node := &corev1.Node{}
	e.must(e.Get(e.Context(), client.ObjectKey{Name: name}, node))
	before := client.MergeFrom(node.DeepCopy())
	change(node)
	e.must(e.Patch(e.Context(), node, before))
	e.waitIdle()
}

func why(reason string) string {
	return "Pending Unschedulable: 0/1 nodes are available: 1 " + reason + ". no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
}

const onFlyball = `Running on "flyball"`

func TestUnschedulablePodsAreRetried(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.waitIdle()
		e.changeNode(pods.NodeName, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		e.create(one("cordoned", "a"))
		e.waitIdle()
		e.wantScheduled("cordoned", why("node(s) were unschedulable"))
		e.changeNode(pods.NodeName, func(n *corev1.Node) { n.Spec.Unschedulable = false })
		e.wantScheduled("cordoned", onFlyball)

		e.changeNode(pods.NodeName, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
		})
		e.create(one("tainted", "a"))
		e.create(one("tolerating", "a", func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		}))
		e.waitIdle()
		e.wantScheduled("tainted", why("node(s) had untolerated taint(s)"))
		e.wantScheduled("tolerating", onFlyball)
		e.changeNode(pods.NodeName, func(n *corev1.Node) { n.Spec.Taints = nil })
		e.wantScheduled("tainted", onFlyball)

		e.create(one("selective", "a", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "ssd"} }))
		e.waitIdle()
		e.wantScheduled("selective", why("node(s) didn't match Pod's node affinity/selector"))
		e.changeNode(pods.NodeName, func(n *corev1.Node) { n.Labels["disk"] = "ssd" })
		e.wantScheduled("selective", onFlyball)

		e.create(one("huge", "a", requesting("99999")))
		e.create(one("large", "a", requesting("9k")))
		e.waitIdle()
		e.wantScheduled("huge", why("Insufficient cpu"))
		e.wantScheduled("large", onFlyball)
		e.create(one("second", "a", requesting("9k")))
		e.waitIdle()
		e.wantScheduled("second", strings.Replace(why("Insufficient cpu"), "Preemption is not helpful for scheduling", "No preemption victims found for incoming pod", 1))
		e.must(e.Delete(e.Context(), e.pod("large")))
		e.waitIdle()
		e.wantScheduled("second", onFlyball)
	})
}

func TestPodsThatAreNotScheduled(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(one("gated", "a", func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} }))
		e.create(one("foreign", "a", func(s *corev1.PodSpec) { s.SchedulerName = "mine" }))
		e.create(one("nowhere", "a", func(s *corev1.PodSpec) { s.NodeName = "absent" }))
		e.create(one("direct", "a", func(s *corev1.PodSpec) { s.NodeName = pods.NodeName }))
		e.waitIdle()
		e.wantScheduled("gated", "Pending SchedulingGated: Scheduling is blocked due to non-empty scheduling gates")
		e.wantScheduled("foreign", `Pending on ""`)
		e.wantScheduled("nowhere", `Pending on "absent"`)
		e.wantScheduled("direct", onFlyball)

		gated := e.pod("gated")
		before := client.MergeFrom(gated.DeepCopy())
		gated.Spec.SchedulingGates = nil
		e.must(e.Patch(e.Context(), gated, before))
		e.waitIdle()
		e.wantScheduled("gated", onFlyball)
	})
}

// TestOtherNodes: a node that a user adds gets pods when it is ready, and only those that do not
// fit on the one that is there.
func TestOtherNodes(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.waitIdle()
		e.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "added", Labels: map[string]string{"disk": "ssd"}}})
		e.create(one("selective", "a", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "ssd"} }))
		e.create(one("web", "a"))
		e.waitIdle()
		node := &corev1.Node{}
		e.must(e.Get(e.Context(), client.ObjectKey{Name: "added"}, node))
		if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady {
			t.Errorf("the node that is not ready has the taints %v", node.Spec.Taints)
		}
		e.wantScheduled("selective", "Pending Unschedulable: 0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s)."+
			" no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")

		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
		e.must(e.Status().Update(e.Context(), node))
		e.waitIdle()
		e.wantScheduled("selective", `Pending on "added"`) // whose kubelet would run it
		e.wantScheduled("web", onFlyball)
		e.must(e.Get(e.Context(), client.ObjectKey{Name: "added"}, node))
		if len(node.Spec.Taints) != 0 {
			t.Errorf("the node that is ready has the taints %v", node.Spec.Taints)
		}
	})
}

// TestWithoutNodes: pods are reported as unschedulable only after a timeout.
func TestWithoutNodes(t *testing.T) {
	inVirtualTime(t, controllers.Options{Without: []string{"pods"}}, func(e env) {
		e.create(one("web", "a"))
		e.waitIdle()
		e.wantScheduled("web", "Pending Unschedulable: no nodes available to schedule pods")
	})
}

func TestExhaustedAddresses(t *testing.T) {
	o := controllers.Options{Pods: pods.Options{Network: netip.MustParsePrefix("10.200.0.0/29")}} // 6 pods
	inVirtualTime(t, o, func(e env) {
		for i := range 8 {
			e.create(one(fmt.Sprint("p", i), "a"))
			e.waitIdle()
		}
		seen := map[string]bool{}
		for i := range 6 {
			seen[e.pod(fmt.Sprint("p", i)).Status.PodIP] = true
		}
		if len(seen) != 6 || seen[""] {
			t.Errorf("the addresses are %v", seen)
		}
		const none = "Failed to create pod sandbox: no IP addresses available in 10.200.0.0/29"
		for _, name := range []string{"p6", "p7"} {
			p, described := e.pod(name), ""
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse {
					described = c.Message
				}
			}
			if p.Status.Phase != corev1.PodPending || described != none {
				t.Errorf("%s is %s with %q", name, p.Status.Phase, described)
			}
			e.wantEvents("Pod", name,
				"Warning FailedCreatePodSandBox kubelet: "+none,
				"Normal Scheduled default-scheduler: Successfully assigned default/"+name+" to flyball")
		}
		before := e.pod("p7").ResourceVersion
		time.Sleep(time.Hour) // virtual
		if after := e.pod("p7").ResourceVersion; after != before {
			t.Error("the pod is written again and again")
		}

		freed := e.pod("p3").Status.PodIP
		e.must(e.Delete(e.Context(), e.pod("p3")))
		e.waitIdle()
		e.wantScheduled("p6", onFlyball)
		e.wantScheduled("p7", `Pending on "flyball"`)
		if got := e.pod("p6").Status.PodIP; got != freed {
			t.Errorf("the address is %s, want %s", got, freed)
		}

		ends := one("p8", "a")
		ends.Annotations = map[string]string{pods.OutcomeAnnotation: pods.Succeeded}
		ends.Spec.RestartPolicy = corev1.RestartPolicyNever
		e.must(e.Delete(e.Context(), e.pod("p7")))
		e.must(e.Delete(e.Context(), e.pod("p0")))
		e.waitIdle()
		e.create(ends)
		e.waitIdle()
		e.create(one("p9", "a"))
		e.waitIdle()
		e.wantScheduled("p8", `Succeeded on "flyball"`)
		e.wantScheduled("p9", onFlyball) // one that has ended needs no address
	})
}

// TestAddressesSurviveARestart starts a control plane on the storage of another.
func TestAddressesSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := keepOpen{memory.New(memory.Options{})}
		defer kept.Store.Close()
		run := func(do func(e env)) {
			plane, err := controlplane.Start(t.Context(), controlplane.Options{Storage: kept})
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.NewWithWatch(plane.Config(), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			do(env{t, c, plane})
			if err := plane.Stop(); err != nil {
				t.Error(err)
			}
		}
		addresses := map[string]string{}
		run(func(e env) {
			for i := range 5 {
				e.create(one(fmt.Sprint("p", i), "a"))
			}
			e.waitIdle()
			for i := range 5 {
				p := e.pod(fmt.Sprint("p", i))
				addresses[p.Status.PodIP] = p.Name
			}
			e.must(e.Delete(e.Context(), e.pod("p1")))
			e.waitIdle()
		})
		run(func(e env) {
			e.create(one("p5", "a"))
			e.create(one("p6", "a"))
			e.waitIdle()
			for i := range 7 {
				if i == 1 {
					continue
				}
				p := e.pod(fmt.Sprint("p", i))
				if owner := addresses[p.Status.PodIP]; p.Status.PodIP == "" || i < 5 && owner != p.Name || i >= 5 && owner != "" && owner != "p1" {
					t.Errorf("%s has %q, which %q had", p.Name, p.Status.PodIP, owner)
				}
				addresses[p.Status.PodIP] = p.Name
			}
		})
	})
}

// keepOpen is a storage that outlives its control plane.
type keepOpen struct{ storage.Store }

func (keepOpen) Close() error { return nil }

func TestNodeLease(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.waitIdle()
		key, lease := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: pods.NodeName}, &coordinationv1.Lease{}
		renewed := func() time.Duration {
			e.must(e.Get(e.Context(), key, lease))
			return time.Since(lease.Spec.RenewTime.Time)
		}
		for range 10 {
			time.Sleep(7 * time.Second)
			if age := renewed(); age > 10*time.Second || *lease.Spec.LeaseDurationSeconds != 40 || *lease.Spec.HolderIdentity != pods.NodeName {
				t.Errorf("renewed %s ago: %+v", age, lease.Spec)
			}
		}
		node := &corev1.Node{}
		e.must(e.Get(e.Context(), client.ObjectKey{Name: pods.NodeName}, node))
		if o := lease.OwnerReferences; len(o) != 1 || o[0].UID != node.UID || o[0].Kind != "Node" {
			t.Errorf("its owner is %v", o)
		}
		e.must(e.Delete(e.Context(), lease))
		time.Sleep(11 * time.Second)
		renewed()
	})
}

func TestRootCA(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.waitIdle()
		e.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		e.waitIdle()
		published := func(namespace string) *corev1.ConfigMap {
			t.Helper()
			m := &corev1.ConfigMap{}
			e.must(e.Get(e.Context(), client.ObjectKey{Namespace: namespace, Name: "kube-root-ca.crt"}, m))
			return m
		}
		want := published("default").Data["ca.crt"]
		if !strings.HasPrefix(want, "-----BEGIN CERTIFICATE-----") {
			t.Errorf("published is %q", want)
		}
		check := func(namespace string) {
			t.Helper()
			if got := published(namespace).Data; len(got) != 1 || got["ca.crt"] != want {
				t.Errorf("%s has %q", namespace, got)
			}
		}
		check("kube-system")
		check("team")

		m := published("team")
		m.Data = map[string]string{"ca.crt": "mine", "other": "too"}
		e.must(e.Update(e.Context(), m))
		e.waitIdle()
		check("team")
		e.must(e.Delete(e.Context(), published("team")))
		e.waitIdle()
		check("team")

		e.must(e.Delete(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}))
		e.waitIdle()
		if err := e.Get(e.Context(), client.ObjectKey{Name: "team"}, &corev1.Namespace{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the namespace still exists: %v", err)
		}
	})
}
