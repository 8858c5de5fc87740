package daemonset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/controllers"
	"flyball.dev/controllers/podgc"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// withoutKubelet leaves the pods to the test. Nodes without a kubelet would become unreachable.
var withoutKubelet = controllers.Options{Without: []string{"pods", "node-lifecycle-controller"}}

// daemonSet returns the DaemonSet "web".
func daemonSet(image string, change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: controllerstest.Web.Name},
		Spec: appsv1.DaemonSetSpec{Template: controllerstest.Template(image),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

func get(e controllerstest.Env) *appsv1.DaemonSet {
	e.Helper()
	set := &appsv1.DaemonSet{}
	e.Must(e.Get(e.Context(), controllerstest.Web, set))
	return set
}

// change patches the DaemonSet and waits until the controllers are idle.
func change(e controllerstest.Env, change func(*appsv1.DaemonSet)) {
	e.Helper()
	set := get(e)
	before := client.MergeFrom(set.DeepCopy())
	change(set)
	e.Must(e.Patch(e.Context(), set, before))
	e.WaitIdle()
}

func image(image string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

func rolling(unavailable, surge string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) {
		u, s := intstr.Parse(unavailable), intstr.Parse(surge)
		set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &u, MaxSurge: &s}}
	}
}

func onDelete(set *appsv1.DaemonSet) {
	set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
}

// createNodes creates nodes that are ready.
func createNodes(e controllerstest.Env, names ...string) {
	e.Helper()
	for _, name := range names {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
		e.CreateAll(node)
		before := client.MergeFrom(node.DeepCopy())
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
		e.Must(e.Status().Patch(e.Context(), node, before))
	}
	e.WaitIdle()
}

func changeNode(e controllerstest.Env, name string, change func(*corev1.Node)) {
	e.Helper()
	node := &corev1.Node{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Name: name}, node))
	before := client.MergeFrom(node.DeepCopy())
	change(node)
	e.Must(e.Patch(e.Context(), node, before))
	e.WaitIdle()
}

func podsOf(e controllerstest.Env) []corev1.Pod {
	e.Helper()
	list := &corev1.PodList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(controllerstest.Web.Namespace)))
	return list.Items
}

// runPods makes the bound pods ready, and ends the pods that are being deleted.
func runPods(e controllerstest.Env) {
	e.Helper()
	for _, p := range podsOf(e) {
		switch {
		case p.DeletionTimestamp != nil:
			e.Must(client.IgnoreNotFound(e.Delete(e.Context(), &p, client.GracePeriodSeconds(0))))
		case p.Spec.NodeName != "" && p.Status.Phase == corev1.PodPending:
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			e.Must(e.Status().Update(e.Context(), &p))
		}
	}
	e.WaitIdle()
}

// want checks the node, the image and the state of each pod, sorted.
func want(e controllerstest.Env, want ...string) {
	e.Helper()
	var got []string
	for _, p := range podsOf(e) {
		state := string(p.Status.Phase)
		if p.DeletionTimestamp != nil {
			state = "deleted"
		}
		got = append(got, fmt.Sprintf("%s %s %s", p.Spec.NodeName, p.Spec.Containers[0].Image, state))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		e.Errorf("the pods are %q, want %q", got, want)
	}
}

// wantStatus checks the numbers of the status: desired, current, ready, updated, available and misscheduled.
func wantStatus(e controllerstest.Env, want ...int32) {
	e.Helper()
	s := get(e).Status
	got := []int32{s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable, s.NumberMisscheduled}
	if !slices.Equal(got, want) || s.NumberUnavailable != s.DesiredNumberScheduled-s.NumberAvailable || s.ObservedGeneration != get(e).Generation {
		e.Errorf("the status is %+v, want %v", s, want)
	}
}

// TestNodes lets nodes come, become unsuitable, and go.
func TestNodes(t *testing.T) {
	controllerstest.InVirtualTime(t, withoutKubelet, func(e controllerstest.Env) {
		e.CreateAll(daemonSet("a"))
		e.WaitIdle()
		want(e)
		wantStatus(e, 0, 0, 0, 0, 0, 0)
		createNodes(e, "n1", "n2")
		want(e, "n1 a Pending", "n2 a Pending")
		wantStatus(e, 2, 2, 0, 2, 0, 0)
		runPods(e)
		want(e, "n1 a Running", "n2 a Running")
		wantStatus(e, 2, 2, 2, 2, 2, 0)

		// A node with the taint NoSchedule keeps its pod, and is not desired.
		taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
			return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: effect}} }
		}
		changeNode(e, "n1", taint(corev1.TaintEffectNoSchedule))
		want(e, "n1 a Running", "n2 a Running")
		wantStatus(e, 1, 1, 1, 1, 1, 1)
		changeNode(e, "n1", func(n *corev1.Node) { n.Spec.Taints = nil })
		wantStatus(e, 2, 2, 2, 2, 2, 0)

		// A cordoned node gets a pod.
		changeNode(e, "n2", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		pods := podsOf(e)
		e.Must(e.Delete(e.Context(), &pods[0]))
		e.Must(e.Delete(e.Context(), &pods[1]))
		e.WaitIdle()
		want(e, "n1 a deleted", "n2 a deleted")
		runPods(e)
		want(e, "n1 a Pending", "n2 a Pending")
		runPods(e)

		// The selector of the template leaves one.
		change(e, func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"name": "n2"} })
		for range 3 {
			runPods(e)
		}
		want(e, "n2 a Running")
		changeNode(e, "n1", func(n *corev1.Node) { n.Labels["name"] = "n2" })
		want(e, "n1 a Pending", "n2 a Running")
		runPods(e)

		// The pod of a node that is gone goes too.
		e.Must(e.Delete(e.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
		e.WaitIdle()
		wantStatus(e, 1, 1, 1, 1, 1, 0)
		time.Sleep(podgc.Quarantine) // virtual
		e.WaitIdle()
		runPods(e)
		want(e, "n2 a Running")
	})
}

// TestUnschedulablePod waits for room on its node, and goes with the node.
func TestUnschedulablePod(t *testing.T) {
	controllerstest.InVirtualTime(t, withoutKubelet, func(e controllerstest.Env) {
		createNodes(e, "n1", "n2")
		e.CreateAll(daemonSet("a", func(s *appsv1.DaemonSet) {
			s.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}))
		e.WaitIdle()
		want(e, " a Pending", " a Pending")
		wantStatus(e, 2, 2, 0, 2, 0, 0)
		e.Must(e.Delete(e.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
		e.WaitIdle()
		want(e, " a Pending")
		wantStatus(e, 1, 1, 0, 1, 0, 0)
	})
}

func TestRollingUpdate(t *testing.T) {
	controllerstest.InVirtualTime(t, withoutKubelet, func(e controllerstest.Env) {
		createNodes(e, "n1", "n2", "n3")
		e.CreateAll(daemonSet("a", rolling("1", "0")))
		e.WaitIdle()
		runPods(e)
		change(e, image("b"))
		want(e, "n1 a deleted", "n2 a Running", "n3 a Running")
		wantStatus(e, 3, 3, 3, 0, 3, 0)
		runPods(e)
		want(e, "n1 b Pending", "n2 a Running", "n3 a Running")
		wantStatus(e, 3, 3, 2, 1, 2, 0)
		runPods(e)
		want(e, "n1 b Running", "n2 a deleted", "n3 a Running")
		for range 4 {
			runPods(e)
		}
		want(e, "n1 b Running", "n2 b Running", "n3 b Running") // n3 was deleted and is running again
		wantStatus(e, 3, 3, 3, 3, 3, 0)

		change(e, func(s *appsv1.DaemonSet) { s.Spec.MinReadySeconds = 60 })
		time.Sleep(time.Minute) // virtual
		change(e, image("c"))
		runPods(e)
		runPods(e)
		want(e, "n1 c Running", "n2 b Running", "n3 b Running")
		wantStatus(e, 3, 3, 3, 1, 2, 0)
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		want(e, "n1 c Running", "n2 b deleted", "n3 b Running")
	})
}

func TestSurge(t *testing.T) {
	controllerstest.InVirtualTime(t, withoutKubelet, func(e controllerstest.Env) {
		createNodes(e, "n1", "n2", "n3")
		e.CreateAll(daemonSet("a", rolling("0", "1")))
		e.WaitIdle()
		runPods(e)
		change(e, image("b"))
		want(e, "n1 a Running", "n1 b Pending", "n2 a Running", "n3 a Running")
		wantStatus(e, 3, 3, 3, 0, 3, 0) // the oldest pod of a node counts
		runPods(e)
		want(e, "n1 a deleted", "n1 b Running", "n2 a Running", "n2 b Pending", "n3 a Running")
		for range 4 {
			runPods(e)
			if s := get(e).Status; s.NumberAvailable != 3 {
				t.Errorf("%d nodes are available", s.NumberAvailable)
			}
		}
		want(e, "n1 b Running", "n2 b Running", "n3 b Running")
		wantStatus(e, 3, 3, 3, 3, 3, 0)
	})
}

func TestOnDelete(t *testing.T) {
	controllerstest.InVirtualTime(t, withoutKubelet, func(e controllerstest.Env) {
		createNodes(e, "n1", "n2")
		e.CreateAll(daemonSet("a", onDelete))
		e.WaitIdle()
		runPods(e)
		change(e, image("b"))
		want(e, "n1 a Running", "n2 a Running")
		wantStatus(e, 2, 2, 2, 0, 2, 0)
		pods := podsOf(e)
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == "n2" })
		e.Must(e.Delete(e.Context(), &pods[i]))
		runPods(e)
		want(e, "n1 a Running", "n2 b Pending")
	})
}

// watchPods watches the pods.
func watchPods(e controllerstest.Env) watch.Interface {
	e.Helper()
	w, err := e.Watch(e.Context(), &corev1.PodList{}, client.InNamespace("default"))
	e.Must(err)
	return w
}

// waitForPod waits for the next pod that is bound and has not terminated.
func waitForPod(w watch.Interface) *corev1.Pod {
	for event := range w.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted && pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending {
			return pod
		}
	}
	return nil
}

// TestFailedPods fails the pods of a node again and again. They are deleted at once, after 1 s, after 2 s and so on.
func TestFailedPods(t *testing.T) {
	controllerstest.InVirtualTime(t, withoutKubelet, func(e controllerstest.Env) {
		createNodes(e, "n1")
		e.CreateAll(daemonSet("a"))
		e.WaitIdle()
		start, w := time.Now(), watchPods(e)
		defer w.Stop()
		var delays []string
		for len(delays) < 6 {
			pod := waitForPod(w)
			pod.Status.Phase = corev1.PodFailed
			e.Must(e.Status().Update(e.Context(), pod))
			failed := time.Now()
			for gone := false; !gone; {
				event, ok := <-w.ResultChan()
				if !ok {
					e.Fatal("the watch has ended")
				}
				gone = event.Type == watch.Deleted && event.Object.(*corev1.Pod).UID == pod.UID
			}
			delays = append(delays, time.Since(failed).Round(100*time.Millisecond).String())
		}
		if got := strings.Join(delays, " "); got != "0s 1s 2s 4s 8s 16s" {
			t.Errorf("deleted after %s; %s in all", got, time.Since(start))
		}
		e.WaitIdle()
		if events := e.Events("DaemonSet", "web"); !slices.ContainsFunc(events, func(event string) bool {
			return strings.HasPrefix(event, "Warning FailedDaemonPod daemonset-controller: Found failed daemon pod default/web-") &&
				strings.HasSuffix(event, " on node n1, will try to kill it")
		}) {
			t.Errorf("events %q", events)
		}
	})
}

// TestHistory renumbers, limits and restores revisions, and resolves a collision of their names.
func TestHistory(t *testing.T) {
	controllerstest.InVirtualTime(t, withoutKubelet, func(e controllerstest.Env) {
		createNodes(e, "n1")
		revisions := func() string {
			list := &appsv1.ControllerRevisionList{}
			e.Must(e.List(e.Context(), list, client.InNamespace("default")))
			var all []string
			for _, r := range list.Items {
				_, image, _ := strings.Cut(string(r.Data.Raw), `"image":"`)
				image, _, _ = strings.Cut(image, `"`)
				all = append(all, fmt.Sprint(r.Revision, " ", image))
			}
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		e.CreateAll(daemonSet("a", func(s *appsv1.DaemonSet) { s.Spec.RevisionHistoryLimit = new(int32) }))
		e.WaitIdle()
		runPods(e)
		change(e, image("b"))
		if got := revisions(); got != "1 a, 2 b" { // the first has a pod
			t.Errorf("revisions %s", got)
		}
		runPods(e)
		runPods(e)
		if got := revisions(); got != "2 b" {
			t.Errorf("revisions %s", got)
		}
		limit := int32(5)
		change(e, func(s *appsv1.DaemonSet) { s.Spec.RevisionHistoryLimit = &limit })
		change(e, image("a"))
		change(e, image("b"))
		if got := revisions(); got != "3 a, 4 b" {
			t.Errorf("revisions %s", got)
		}

		// The names of the revisions of a new DaemonSet are taken.
		name := ""
		list := &appsv1.ControllerRevisionList{}
		e.Must(e.List(e.Context(), list, client.InNamespace("default")))
		for _, r := range list.Items {
			if r.Revision == 4 {
				name = r.Name
			}
		}
		e.Must(e.Delete(e.Context(), get(e)))
		runPods(e)
		e.CreateAll(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: runtime.RawExtension{Raw: []byte(`{}`)}})
		e.CreateAll(daemonSet("b", func(s *appsv1.DaemonSet) { s.Spec.RevisionHistoryLimit = &limit }))
		e.WaitIdle()
		if s := get(e).Status; s.CollisionCount == nil || *s.CollisionCount != 1 || s.CurrentNumberScheduled != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestRevisionOfAnother: a revision that a user creates for a DaemonSet does not trigger it. Its next reconcile keeps one of two
// revisions with the same data.
func TestRevisionOfAnother(t *testing.T) {
	controllerstest.InVirtualTime(t, withoutKubelet, func(e controllerstest.Env) {
		createNodes(e, "n1")
		e.CreateAll(daemonSet("a"))
		e.WaitIdle()
		list := func() []appsv1.ControllerRevision {
			all := &appsv1.ControllerRevisionList{}
			e.Must(e.List(e.Context(), all))
			return all.Items
		}
		own := list()[0]
		second := &appsv1.ControllerRevision{Data: own.Data, Revision: own.Revision + 1,
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "second", Labels: own.Labels, OwnerReferences: own.OwnerReferences}}
		e.CreateAll(second)
		e.WaitIdle()
		if got := list(); len(got) != 2 {
			t.Errorf("%d revisions after the creation of another", len(got))
		}
		change(e, func(s *appsv1.DaemonSet) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, "a", "b") })
		e.WaitIdle()
		if got := list(); len(got) != 1 || got[0].Name != "second" {
			t.Errorf("the revisions after a reconcile: %+v", got)
		}
	})
}

// TestOrphans deletes a DaemonSet without its pods and revisions, and creates it again. It adopts them.
func TestOrphans(t *testing.T) {
	controllerstest.InVirtualTime(t, withoutKubelet, func(e controllerstest.Env) {
		createNodes(e, "n1", "n2")
		e.CreateAll(daemonSet("a"))
		e.WaitIdle()
		runPods(e)
		for range 2 {
			before := e.PodNames("default")
			e.Must(e.Delete(e.Context(), get(e), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
			e.WaitIdle()
			e.CreateAll(daemonSet("a"))
			e.WaitIdle()
			if got := e.PodNames("default"); !slices.Equal(got, before) {
				t.Errorf("the pods are %v, and were %v", got, before)
			}
			wantStatus(e, 2, 2, 2, 2, 2, 0)
			revisions := &appsv1.ControllerRevisionList{}
			e.Must(e.List(e.Context(), revisions))
			if len(revisions.Items) != 1 || !metav1.IsControlledBy(&revisions.Items[0], get(e)) {
				t.Errorf("revisions %+v", revisions.Items)
			}
		}
		pod := e.Pod(e.PodNames("default")[0])
		before := client.MergeFrom(pod.DeepCopy())
		pod.Labels = map[string]string{"app": "other"}
		e.Must(e.Patch(e.Context(), pod, before))
		e.WaitIdle()
		if pods := podsOf(e); len(pods) != 3 {
			t.Errorf("there are %d pods", len(pods))
		}
		if e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(pod), pod)); len(pod.OwnerReferences) > 0 {
			t.Error("the pod was not released")
		}
		e.Must(e.Delete(e.Context(), get(e), client.PropagationPolicy(metav1.DeletePropagationForeground)))
		e.WaitIdle()
		runPods(e)
		if err := e.Get(e.Context(), controllerstest.Web, &appsv1.DaemonSet{}); !apierrors.IsNotFound(err) {
			t.Errorf("the DaemonSet: %v", err)
		}
		e.WantPodNames(pod.Name)
	})
}

// TestFaults runs the controller with failing writes and frequent restarts during updates. Each node has one pod of the last
// template in the end.
func TestFaults(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
				createNodes(e, "n1", "n2", "n3")
				strategy := []func(*appsv1.DaemonSet){rolling("1", "0"), rolling("0", "2"), rolling("50%", "0")}[seed%3]
				e.CreateAll(daemonSet("0", strategy))
				step := 0
				e.RunWithFaults("daemonset-controller", seed, func() {
					if step++; step%20 == 0 && step <= 100 {
						set := get(e)
						before := client.MergeFrom(set.DeepCopy())
						image(fmt.Sprint(step))(set)
						e.Must(e.Patch(e.Context(), set, before))
					}
					for _, p := range podsOf(e) {
						switch node := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]; {
						case p.DeletionTimestamp != nil:
							e.Must(client.IgnoreNotFound(e.Delete(e.Context(), &p, client.GracePeriodSeconds(0))))
						case p.Spec.NodeName == "":
							e.Must(client.IgnoreNotFound(e.SubResource("binding").Create(e.Context(), &p, &corev1.Binding{Target: corev1.ObjectReference{Name: node}})))
						case p.Status.Phase == corev1.PodPending:
							p.Status.Phase = corev1.PodRunning
							p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
							e.Must(client.IgnoreNotFound(e.Status().Update(e.Context(), &p)))
						}
					}
				}, func() bool {
					s := get(e).Status
					return step > 100 && s.ObservedGeneration == get(e).Generation && s.UpdatedNumberScheduled == 3 && s.NumberAvailable == 3 && len(podsOf(e)) == 3
				})
				want(e, "n1 100 Running", "n2 100 Running", "n3 100 Running")
				wantStatus(e, 3, 3, 3, 3, 3, 0)
				revisions := &appsv1.ControllerRevisionList{}
				if e.Must(e.List(e.Context(), revisions)); len(revisions.Items) != 6 {
					t.Errorf("there are %d revisions", len(revisions.Items))
				}
			})
		})
	}
}
