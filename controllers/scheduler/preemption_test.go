package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// threeNodes has three nodes with 4 CPUs, in two zones.
func threeNodes() controllers.Options {
	nodes := pods.Nodes(3)
	for i := range nodes {
		nodes[i].Labels = map[string]string{corev1.LabelTopologyZone: []string{"1", "2", "1"}[i]}
		nodes[i].Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("20")}
	}
	return controllers.Options{Pods: pods.Options{Nodes: nodes}}
}

func createPriorities(e controllerstest.Env) {
	for name, value := range map[string]int32{"low": -5, "high": 5, "higher": 9} {
		e.CreateAll(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value},
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name + "-patient"}, Value: value, PreemptionPolicy: ptr.To(corev1.PreemptNever)})
	}
}

func ofPriority(name, cpu string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.PriorityClassName = name
		requesting(cpu)(s)
	}
}

// TestPreemption: a pod gets the node of its victim when that has terminated.
func TestPreemption(t *testing.T) {
	controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
		createPriorities(e)
		e.WaitIdle()
		for i, name := range []string{"low", "", ""} {
			p := controllerstest.Pod(fmt.Sprint("full", i), "a", ofPriority(name, "3"))
			p.Finalizers = []string{"example.com/wait"}
			e.CreateAll(p)
		}
		e.WaitIdle()
		e.CreateAll(controllerstest.Pod("important", "a", ofPriority("high", "3")))
		e.WaitIdle()
		p, victim := e.Pod("important"), e.Pod("full0")
		node := victim.Spec.NodeName
		e.WantScheduled("important", fmt.Sprintf("Running on %q", node))
		c := podstate.Condition(victim, corev1.DisruptionTarget)
		if victim.DeletionTimestamp == nil || c == nil || c.Reason != "PreemptionByScheduler" ||
			c.Message != "default-scheduler: preempting to accommodate a higher priority pod" {
			t.Errorf("the victim is %+v, deleted at %v", c, victim.DeletionTimestamp)
		}
		events := &eventsv1.EventList{}
		e.Must(e.List(e.Context(), events))
		notes := map[string]string{}
		for _, event := range events.Items {
			notes[event.Regarding.Name+" "+event.Reason] = event.Note
		}
		for of, want := range map[string]string{
			"important FailedScheduling": "0/3 nodes are available: 3 Insufficient cpu. preemption: found a potential placement for pod on node " + node + ", preempting 1 victims",
			"important Scheduled":        "Successfully assigned default/important to " + node,
			"full0 Preempted":            fmt.Sprintf("Preempted by pod %s on node %s", p.UID, node),
		} {
			if notes[of] != want {
				t.Errorf("the event %s is %q, want %q", of, notes[of], want)
			}
		}
		e.CreateAll(controllerstest.Pod("patient", "a", ofPriority("higher-patient", "3")))
		e.WaitIdle()
		e.WantScheduled("patient", "Pending Unschedulable: 0/3 nodes are available: 3 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.")
	})
}

// TestPatientVictims: a pod waits for victims that take long to terminate, although a budget allows no disruption, and evicts no others
// meanwhile. If its node is deleted, it goes to another one.
func TestPatientVictims(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprint("deleted ", deleted), func(t *testing.T) {
			controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
				createPriorities(e)
				e.CreateAll(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"}, Spec: policyv1.PodDisruptionBudgetSpec{
					MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "low"}}}})
				e.WaitIdle()
				for i := range 3 {
					p := controllerstest.Pod(fmt.Sprint("low", i), "a", ofPriority("low", "3"))
					p.Labels = map[string]string{"app": "low"}
					p.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{stop: {after: 50m}}]"}
					p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600)
					e.CreateAll(p)
				}
				e.WaitIdle()
				e.CreateAll(controllerstest.Pod("important", "a", ofPriority("high", "3")))
				time.Sleep(40 * time.Minute) // virtual
				nominated := e.Pod("important").Status.NominatedNodeName
				if got := terminating(e); got != nominated || got == "" {
					t.Fatalf("terminating are the pods of %q, and the pod waits for %q", got, nominated)
				}
				if !deleted {
					time.Sleep(11 * time.Minute)
					e.WantScheduled("important", fmt.Sprintf("Running on %q", nominated))
					return
				}
				e.Must(e.Delete(e.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nominated}}))
				time.Sleep(10 * time.Minute)
				next := e.Pod("important").Status.NominatedNodeName
				if got := terminating(e); got != next || next == nominated {
					t.Errorf("terminating are the pods of %q, and the pod waits for %q, before for %q", got, next, nominated)
				}
				time.Sleep(time.Hour)
				e.WantScheduled("important", fmt.Sprintf("Running on %q", next))
			})
		})
	}
}

// terminating returns the nodes of the pods that are being deleted.
func terminating(e controllerstest.Env) string {
	e.Helper()
	var nodes []string
	for _, p := range e.Terminating() {
		nodes = append(nodes, p.Spec.NodeName)
	}
	return strings.Join(nodes, " ")
}

// TestPriorityOrder: when there is room for one of several pods, the one of the highest priority gets it.
func TestPriorityOrder(t *testing.T) {
	controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
		createPriorities(e)
		e.WaitIdle()
		full := func(s *corev1.PodSpec) { s.NodeName = pods.NodeName }
		e.CreateAll(controllerstest.Pod("full", "a", requesting("4"), full))
		e.WaitIdle()
		here := func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelHostname: pods.NodeName} }
		for _, name := range []string{"low", "higher", "high"} {
			e.CreateAll(controllerstest.Pod(name, "a", ofPriority(name+"-patient", "3"), here))
		}
		e.WaitIdle()
		time.Sleep(time.Minute) // no pod is in its back-off, which may be longer for the one of the highest priority
		e.Must(e.Delete(e.Context(), e.Pod("full")))
		time.Sleep(time.Minute)
		e.WantScheduled("higher", controllerstest.OnFlyball)
		for _, name := range []string{"low", "high"} {
			if got := e.Pod(name).Spec.NodeName; got != "" {
				t.Errorf("%s is on %s", name, got)
			}
		}
	})
}

// TestPodsAreSpread: the pods of a Deployment are on all nodes, and those with anti-affinity one on each.
func TestPodsAreSpread(t *testing.T) {
	controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
		deployment := func(name string, replicas int32, change ...func(*corev1.PodSpec)) *appsv1.Deployment {
			template := controllerstest.Template("a")
			template.Labels = map[string]string{"app": name}
			for _, c := range change {
				c(&template.Spec)
			}
			return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &replicas,
				Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}}
		}
		e.WaitIdle()
		spread := deployment("spread", 0)
		e.CreateAll(spread, deployment("apart", 4, func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "apart"}}}}}}
		}))
		e.WaitIdle() // until the scheduler has observed the ReplicaSet, by which pods are spread
		spread.ResourceVersion, spread.Spec.Replicas = "", new(int32(6))
		e.Must(e.Update(e.Context(), spread))
		e.WaitIdle()
		list := &corev1.PodList{}
		e.Must(e.List(e.Context(), list, client.InNamespace("default")))
		counts := map[string]int{}
		for _, p := range list.Items {
			counts[p.Labels["app"]+" "+p.Spec.NodeName]++
		}
		for _, n := range []string{"flyball", "flyball-2", "flyball-3"} {
			if counts["spread "+n] != 2 || counts["apart "+n] != 1 {
				t.Errorf("the pods are on %v", counts)
				break
			}
		}
		if counts["apart "] != 1 {
			t.Errorf("the fourth pod is not pending: %v", counts)
		}
	})
}

// TestVolumesFollowTheNode: a volume is provisioned on the node of the pod, and the next pod goes there.
func TestVolumesFollowTheNode(t *testing.T) {
	controllerstest.InVirtualTime(t, threeNodes(), func(e controllerstest.Env) {
		using := func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}
		e.WaitIdle()
		e.CreateAll(controllerstest.Claim("data", "1Gi", "standard"), controllerstest.Pod("first", "a", using, func(s *corev1.PodSpec) {
			s.NodeSelector = map[string]string{corev1.LabelTopologyZone: "2"}
		}))
		e.WaitIdle()
		e.WantScheduled("first", `Running on "flyball-2"`)
		e.CreateAll(controllerstest.Pod("second", "a", using))
		e.WaitIdle()
		e.WantScheduled("second", `Running on "flyball-2"`)
		e.CreateAll(controllerstest.Pod("third", "a", using, func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelTopologyZone: "1"} }))
		e.WaitIdle()
		e.WantScheduled("third", "Pending Unschedulable: 0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "+
			"2 node(s) didn't match PersistentVolume's node affinity. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.")
	})
}
