package pods_test

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

func TestExhaustedAddresses(t *testing.T) {
	o := controllers.Options{Pods: pods.Options{Network: netip.MustParsePrefix("10.200.0.0/29")}} // 6 pods
	controllerstest.InVirtualTime(t, o, func(e controllerstest.Env) {
		for i := range 8 {
			e.CreateAll(controllerstest.Pod(fmt.Sprint("p", i), "a"))
			e.WaitIdle()
		}
		seen := map[string]bool{}
		for i := range 6 {
			seen[e.Pod(fmt.Sprint("p", i)).Status.PodIP] = true
		}
		if len(seen) != 6 || seen[""] {
			t.Errorf("the addresses are %v", seen)
		}
		const none = "Failed to create pod sandbox: no IP addresses available in 10.200.0.0/29"
		for _, name := range []string{"p6", "p7"} {
			p, described := e.Pod(name), ""
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse {
					described = c.Message
				}
			}
			if p.Status.Phase != corev1.PodPending || described != none {
				t.Errorf("%s is %s with %q", name, p.Status.Phase, described)
			}
			e.WantEvents("Pod", name,
				"Warning FailedCreatePodSandBox kubelet: "+none,
				"Normal Scheduled default-scheduler: Successfully assigned default/"+name+" to flyball")
		}
		before := e.Pod("p7").ResourceVersion
		time.Sleep(time.Hour) // virtual
		if after := e.Pod("p7").ResourceVersion; after != before {
			t.Error("the pod is written again and again")
		}

		freed := e.Pod("p3").Status.PodIP
		e.Must(e.Delete(e.Context(), e.Pod("p3")))
		e.WaitIdle()
		e.WantScheduled("p6", controllerstest.OnFlyball)
		e.WantScheduled("p7", `Pending on "flyball"`)
		if got := e.Pod("p6").Status.PodIP; got != freed {
			t.Errorf("the address is %s, want %s", got, freed)
		}

		ends := controllerstest.Pod("p8", "a")
		ends.Annotations = map[string]string{pods.OutcomeAnnotation: pods.Succeeded}
		ends.Spec.RestartPolicy = corev1.RestartPolicyNever
		e.Must(e.Delete(e.Context(), e.Pod("p7")))
		e.Must(e.Delete(e.Context(), e.Pod("p0")))
		e.WaitIdle()
		e.CreateAll(ends)
		e.WaitIdle()
		e.CreateAll(controllerstest.Pod("p9", "a"))
		e.WaitIdle()
		e.WantScheduled("p8", `Succeeded on "flyball"`)
		e.WantScheduled("p9", controllerstest.OnFlyball) // one that has ended needs no address
	})
}

// TestAddressesSurviveARestart starts a control plane on the storage of another.
func TestAddressesSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := storagetest.Kept{Store: memory.New(memory.Options{})}
		defer kept.Store.Close()
		run := func(do func(e controllerstest.Env)) {
			controllerstest.WithPlane(t, controlplane.Options{Storage: kept}, do)
		}
		addresses := map[string]string{}
		run(func(e controllerstest.Env) {
			for i := range 5 {
				e.CreateAll(controllerstest.Pod(fmt.Sprint("p", i), "a"))
			}
			e.WaitIdle()
			for i := range 5 {
				p := e.Pod(fmt.Sprint("p", i))
				addresses[p.Status.PodIP] = p.Name
			}
			e.Must(e.Delete(e.Context(), e.Pod("p1")))
			e.WaitIdle()
		})
		run(func(e controllerstest.Env) {
			e.CreateAll(controllerstest.Pod("p5", "a"))
			e.CreateAll(controllerstest.Pod("p6", "a"))
			e.WaitIdle()
			for i := range 7 {
				if i == 1 {
					continue
				}
				p := e.Pod(fmt.Sprint("p", i))
				if owner := addresses[p.Status.PodIP]; p.Status.PodIP == "" || i < 5 && owner != p.Name || i >= 5 && owner != "" && owner != "p1" {
					t.Errorf("%s has %q, which %q had", p.Name, p.Status.PodIP, owner)
				}
				addresses[p.Status.PodIP] = p.Name
			}
		})
	})
}

func TestNodeLease(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.WaitIdle()
		key, lease := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: pods.NodeName}, &coordinationv1.Lease{}
		renewed := func() time.Duration {
			e.Must(e.Get(e.Context(), key, lease))
			return time.Since(lease.Spec.RenewTime.Time)
		}
		for range 10 {
			time.Sleep(7 * time.Second)
			if age := renewed(); age > 10*time.Second || *lease.Spec.LeaseDurationSeconds != 40 || *lease.Spec.HolderIdentity != pods.NodeName {
				t.Errorf("renewed %s ago: %+v", age, lease.Spec)
			}
		}
		node := &corev1.Node{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Name: pods.NodeName}, node))
		if o := lease.OwnerReferences; len(o) != 1 || o[0].UID != node.UID || o[0].Kind != "Node" {
			t.Errorf("its owner is %v", o)
		}
		e.Must(e.Delete(e.Context(), lease))
		time.Sleep(11 * time.Second)
		renewed()
	})
}
