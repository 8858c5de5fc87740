package statefulset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// world is a dumb model of a cluster with one StatefulSet: it executes plans, lets pods start and
// terminate, and checks each action against rules that are stated without the planner.
type world struct {
	*testing.T
	rand *rand.Rand
	set  *appsv1.StatefulSet
	pods map[int]*corev1.Pod
	// image is the image of the template, which identifies the revision. Pods with images that begin with "broken"
	// never become ready.
	image string
	log   []string
}

// TestModel lets users scale, update and delete at random while pods start, fail and terminate. Then it leaves the
// StatefulSet alone, which must reach the desired state.
func TestModel(t *testing.T) {
	for seed := range uint64(500) {
		w := &world{T: t, rand: rand.New(rand.NewPCG(seed, 1)), pods: map[int]*corev1.Pod{}, set: setOf(3)}
		if seed%2 == 1 {
			parallel(w.set)
		}
		if seed%5 == 0 {
			n := intstr.FromInt(1 + w.rand.IntN(3))
			w.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &n
		}
		w.update("v0")
		w.set.Status.CurrentRevision = "v0"
		for range 60 {
			w.disturb()
			w.reconcile()
		}
		w.converge()
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, strings.Join(w.log, "\n"))
		}
	}
}

func (w *world) update(image string) { w.image, w.set.Spec.Template = image, templateWith(image) }

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// disturb does something that users, nodes or kubelets do.
func (w *world) disturb() {
	ordinals := w.ordinals()
	var pod *corev1.Pod
	if len(ordinals) > 0 {
		pod = w.pods[ordinals[w.rand.IntN(len(ordinals))]]
	}
	switch n := w.rand.IntN(20); {
	case n == 0:
		replicas := int32(w.rand.IntN(6))
		w.set.Spec.Replicas = &replicas
		w.logf("replicas: %d", replicas)
	case n == 1:
		image := fmt.Sprintf("v%d", w.rand.IntN(4))
		if w.rand.IntN(4) == 0 {
			image = "broken"
		}
		w.update(image)
		w.logf("image: %s", image)
	case n == 2:
		p := int32(w.rand.IntN(4))
		w.set.Spec.UpdateStrategy.RollingUpdate.Partition = &p
		w.logf("partition: %d", p)
	case n == 3 && w.rand.IntN(3) == 0:
		startingAt(int32(w.rand.IntN(3)))(w.set)
		w.logf("start: %d", w.set.Spec.Ordinals.Start)
	case pod == nil:
	case n == 4 && pod.DeletionTimestamp == nil:
		w.logf("a user deletes %s", pod.Name)
		w.terminate(pod)
	case n == 5 && pod.DeletionTimestamp == nil:
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed}
		w.logf("%s fails", pod.Name)
	case n == 6 && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning:
		pod.Status.Conditions = nil
		w.logf("%s becomes unready", pod.Name)
	default:
		w.progress(pod)
	}
}

// progress lets a pod start, become ready, or go if it is being deleted.
func (w *world) progress(pod *corev1.Pod) {
	ordinal, _ := ordinalOf(w.set, pod)
	switch {
	case pod.DeletionTimestamp != nil:
		delete(w.pods, ordinal)
		w.logf("%s is gone", pod.Name)
	case pod.Status.Phase == corev1.PodPending:
		pod.Status.Phase = corev1.PodRunning
		w.logf("%s runs", pod.Name)
	case pod.Status.Phase == corev1.PodRunning && len(pod.Status.Conditions) == 0 && !strings.HasPrefix(revisionOf(pod), "broken"):
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		w.logf("%s is ready", pod.Name)
	}
}

func (w *world) terminate(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now} }

// ordinals returns the ordinals of all pods, ascending.
func (w *world) ordinals() []int {
	var list []int
	for ordinal := range w.pods {
		list = append(list, ordinal)
	}
	slices.Sort(list)
	return list
}

// reconcile plans and executes, sometimes only a part of the plan, as after an error. It reports
// whether there was anything to do.
func (w *world) reconcile() bool {
	var pods []*corev1.Pod
	for _, pod := range w.pods {
		pods = append(pods, pod)
	}
	current, update := templateWith(w.set.Status.CurrentRevision), templateWith(w.image)
	p := nextPlan(&observed{set: w.set, pods: pods, now: now,
		current: revision{w.set.Status.CurrentRevision, &current}, update: revision{w.image, &update},
		claim: func(string) *corev1.PersistentVolumeClaim { return nil }})
	s := p.status
	for name, n := range map[string]int32{"currentReplicas": s.CurrentReplicas, "updatedReplicas": s.UpdatedReplicas, "readyReplicas": s.ReadyReplicas} {
		if n < 0 || n > s.Replicas {
			w.Errorf("%s is %d of %d", name, n, s.Replicas)
		}
	}
	busy := false
	for _, phase := range p.phases {
		phase = slices.DeleteFunc(phase, func(a action) bool { return a.empty() })
		w.check(phase)
		for _, a := range phase {
			busy = true
			if w.rand.IntN(20) == 0 {
				w.logf("%s %s has failed", a.verb, a.pod.Name)
				w.set.Status = s
				return busy
			}
			w.execute(a)
		}
	}
	w.set.Status = s
	return busy
}

func (w *world) execute(a action) {
	w.logf("%s %s %s", a.verb, a.pod.Name, revisionOf(a.pod))
	ordinal, _ := ordinalOf(w.set, a.pod)
	switch a.verb {
	case create:
		pod := a.pod.DeepCopy()
		pod.Status.Phase = corev1.PodPending
		w.pods[ordinal] = pod
	case remove:
		w.terminate(w.pods[ordinal])
	default:
		w.Errorf("an unexpected action: %v", a)
	}
}

func (w *world) isHealthy(ordinal int) bool {
	pod := w.pods[ordinal]
	return pod != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && len(pod.Status.Conditions) > 0
}

// check checks the actions of a phase by the rules in the documentation of StatefulSets.
func (w *world) check(actions []action) {
	first := startOrdinal(w.set)
	end := first + desired(w.set)
	ordered := w.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	budget := 1
	if m := w.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable; m != nil {
		budget = m.IntValue()
	}
	for ordinal := first + updatePartition(w.set); ordinal < end; ordinal++ {
		if !w.isHealthy(ordinal) {
			budget--
		}
	}
	for _, a := range actions {
		ordinal, _ := ordinalOf(w.set, a.pod)
		pod := w.pods[ordinal]
		wanted := ordinal >= first && ordinal < end
		switch {
		case a.verb == create:
			if pod != nil || !wanted {
				w.Errorf("%s is created, wanted %v, exists %v", a.pod.Name, wanted, pod != nil)
			}
			for lower := first; ordered && lower < ordinal; lower++ {
				if !w.isHealthy(lower) {
					w.Errorf("%s is created while web-%d is not ready", a.pod.Name, lower)
				}
			}
		case pod.DeletionTimestamp != nil:
			w.Errorf("%s is deleted twice", a.pod.Name)
		case pod.Status.Phase == corev1.PodFailed && wanted:
		case !wanted:
			for _, other := range w.ordinals() {
				lower := other >= first && other < end
				if ordered && !lower && other > ordinal {
					w.Errorf("%s is deleted before web-%d", a.pod.Name, other)
				}
				if ordered && lower && !w.isHealthy(other) {
					w.Errorf("%s is scaled down while web-%d is not ready", a.pod.Name, other)
				}
			}
		default: // an update
			if ordered || w.isHealthy(ordinal) {
				budget--
				if budget < 0 {
					w.Errorf("%s is deleted, which makes too many unavailable", a.pod.Name)
				}
			}
			if revisionOf(pod) == w.image || ordinal < first+updatePartition(w.set) {
				w.Errorf("%s is deleted, but is to keep its revision", a.pod.Name)
			}
			for _, other := range w.ordinals() {
				if ordered && !(other >= first && other < end) {
					w.Errorf("%s is updated during a scale down", a.pod.Name)
				}
				if other > ordinal && other < end && w.isHealthy(ordinal) && revisionOf(w.pods[other]) != w.image && w.pods[other].DeletionTimestamp == nil &&
					!slices.ContainsFunc(actions, func(b action) bool { return b.pod.Name == podName(w.set, other) }) {
					w.Errorf("%s is updated before web-%d", a.pod.Name, other)
				}
			}
		}
	}
	if updates := w.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil; ordered && len(actions) > 1 && !updates {
		w.Errorf("%d actions at once", len(actions))
	}
}

// converge lets all pods make progress until nothing happens, and then checks them. As on any cluster,
// a user has to replace a broken revision and to delete its pods, and pods that have failed before they
// are scaled down.
func (w *world) converge() {
	w.logf("quiet")
	w.update("good")
	if w.set.Status.CurrentRevision == "broken" {
		partition(0)(w.set) // pods below the partition would be created from it
	}
	for range 200 {
		for _, ordinal := range w.ordinals() {
			pod := w.pods[ordinal]
			if pod.DeletionTimestamp == nil && (strings.HasPrefix(revisionOf(pod), "broken") ||
				pod.Status.Phase == corev1.PodFailed && !inRange(w.set, ordinal)) {
				w.terminate(pod)
			}
			w.progress(pod)
		}
		w.reconcile()
	}
	first := startOrdinal(w.set)
	for ordinal := first; ordinal < first+desired(w.set); ordinal++ {
		if !w.isHealthy(ordinal) {
			w.Errorf("web-%d is not ready in the end", ordinal)
		} else if r := revisionOf(w.pods[ordinal]); r != "good" && ordinal >= first+updatePartition(w.set) {
			w.Errorf("web-%d has the revision %s in the end", ordinal, r)
		}
	}
	if len(w.pods) != desired(w.set) {
		w.Errorf("%d pods are left, %d wanted", len(w.pods), desired(w.set))
	}
	if updatePartition(w.set) == 0 && w.set.Status.CurrentRevision != "good" {
		w.Errorf("the current revision is %s in the end", w.set.Status.CurrentRevision)
	}
	if w.reconcile() {
		w.Error("there is still something to do")
	}
}
