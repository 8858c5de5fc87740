package statefulset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Unix(1_000_000, 0)

const (
	retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	always = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

func setOf(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web", Generation: 3},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "peers",
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: templateWith("b"),
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32)}},
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

func templateWith(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
	}
}

func parallel(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }
func onDelete(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}
func minReady(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 60 }
func deleting(set *appsv1.StatefulSet) { set.DeletionTimestamp = &metav1.Time{Time: now} }
func startingAt(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}
func partition(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}
func unavailable(v intstr.IntOrString) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &v }
}
func noPartition(current int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate = nil
		set.Status.CurrentReplicas = current
	}
}
func claiming(whenScaled, whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: whenScaled, WhenDeleted: whenDeleted}
	}
}

// podIn returns a pod with the ordinal, the revision and the state in a description such as "2 a ready". The
// states are: ready (for an hour), new (ready for a second), pending, unready, failed, succeeded, and
// additionally deleted.
func podIn(set *appsv1.StatefulSet, description string) *corev1.Pod {
	words := strings.Fields(description)
	var ordinal int
	if _, err := fmt.Sscan(words[0], &ordinal); err != nil {
		panic(err)
	}
	t := templateWith(words[1])
	pod := newPod(set, revision{words[1], &t}, ordinal)
	pod.UID = types.UID(pod.Name)
	pod.Status.Phase = corev1.PodRunning
	ready := func(since time.Duration) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now.Add(-since))}}
	}
	for _, word := range words[2:] {
		switch word {
		case "ready":
			ready(time.Hour)
		case "new":
			ready(time.Second)
		case "pending":
			pod.Status.Phase = corev1.PodPending
		case "failed":
			pod.Status.Phase = corev1.PodFailed
		case "succeeded":
			pod.Status.Phase = corev1.PodSucceeded
		case "unready":
		case "deleted":
			pod.DeletionTimestamp = &metav1.Time{Time: now}
		case "unlabelled":
			delete(pod.Labels, appsv1.StatefulSetPodNameLabel)
		default:
			panic(word)
		}
	}
	return pod
}

// claimIn returns a claim with the name and the owners in a description such as "data-web-0 Pod/web-0/uid".
func claimIn(description string) *corev1.PersistentVolumeClaim {
	words := strings.Fields(description)
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: words[0]}}
	for _, word := range words[1:] {
		if word == "deleted" {
			c.DeletionTimestamp = &metav1.Time{Time: now}
			continue
		}
		parts := strings.Split(word, "/")
		ref := metav1.OwnerReference{Kind: parts[0], Name: parts[1], UID: types.UID(parts[2]), APIVersion: "v1"}
		if parts[0] == kind.Kind {
			ref.APIVersion = "apps/v1"
		}
		if len(parts) == 3 {
			yes := true
			ref.Controller, ref.BlockOwnerDeletion = &yes, &yes
		}
		c.OwnerReferences = append(c.OwnerReferences, ref)
	}
	return c
}

// describe returns the actions of a plan, with a line for each phase.
func describe(p plan) []string {
	var phases []string
	for _, phase := range p.phases {
		var actions []string
		for _, a := range phase {
			if a.empty() {
				continue
			}
			var words []string
			for _, c := range a.create {
				words = append(words, "+"+c.Name+owners(c))
			}
			for _, name := range a.deleting {
				words = append(words, "awaits "+name)
			}
			if a.verb != nothing {
				words = append(words, fmt.Sprintf("%s %s %s", a.verb, a.pod.Name, revisionOf(a.pod)))
			}
			for _, c := range a.update {
				words = append(words, "~"+c.Name+owners(c))
			}
			for _, name := range a.conflicts {
				words = append(words, "!"+name)
			}
			actions = append(actions, strings.Join(words, " "))
		}
		phases = append(phases, strings.Join(actions, ", "))
	}
	return phases
}

func owners(c *corev1.PersistentVolumeClaim) string {
	var s string
	for _, ref := range c.OwnerReferences {
		s += "(" + ref.Kind + ")"
	}
	return s
}

// planFor returns the plan for a StatefulSet with the given pods and claims, and with the revisions a and b.
func planFor(set *appsv1.StatefulSet, pods []*corev1.Pod, claims map[string]*corev1.PersistentVolumeClaim) plan {
	current, update := templateWith("a"), templateWith("b")
	return nextPlan(&observed{set: set, pods: pods, now: now,
		current: revision{"a", &current}, update: revision{"b", &update},
		claim: func(name string) *corev1.PersistentVolumeClaim { return claims[name] }})
}

func TestPlan(t *testing.T) {
	type options = []func(*appsv1.StatefulSet)
	for _, tt := range []struct {
		name     string
		replicas int32
		options  options
		pods     []string
		claims   []string
		want     []string
	}{
		{name: "the first pod", replicas: 3, want: []string{"Create web-0 b"}},
		{name: "the next pod", replicas: 3, pods: []string{"0 b ready"}, want: []string{"Create web-1 b"}},
		{name: "a pod that is missing below others", replicas: 3, pods: []string{"0 b ready", "2 b unready"}, want: []string{"Create web-1 b"}},
		{name: "a pod that is not ready is awaited", replicas: 3, pods: []string{"0 b unready"}},
		{name: "a pod that is pending is awaited", replicas: 3, pods: []string{"0 b pending"}},
		{name: "a pod that is not available is awaited", replicas: 3, options: options{minReady}, pods: []string{"0 b new"}},
		{name: "a pod that is available is not", replicas: 3, options: options{minReady}, pods: []string{"0 b ready"}, want: []string{"Create web-1 b"}},
		{name: "a pod that is being deleted is awaited", replicas: 3, pods: []string{"0 b ready deleted"}},
		{name: "a failed pod is deleted", replicas: 2, pods: []string{"0 b failed", "1 b ready"}, want: []string{"Delete web-0 b"}},
		{name: "a succeeded pod is deleted", replicas: 2, pods: []string{"0 b succeeded", "1 b ready"}, want: []string{"Delete web-0 b"}},
		{name: "a failed pod that is being deleted is awaited", replicas: 2, pods: []string{"0 b failed deleted"}},
		{name: "a failed pod is deleted when those below are ready", replicas: 2, pods: []string{"0 b unready", "1 b failed"}},
		{name: "other ordinals", replicas: 2, options: options{startingAt(5)}, pods: []string{"5 b ready"}, want: []string{"Create web-6 b"}},
		{name: "pods below the first ordinal", replicas: 2, options: options{startingAt(5)}, pods: []string{"0 b ready", "5 b ready", "6 b ready"}, want: []string{"Delete web-0 b"}},
		{name: "no pods", replicas: 0},
		{name: "a StatefulSet that is being deleted", replicas: 3, options: options{deleting}, pods: []string{"0 b failed", "7 b ready"}},
		{name: "a pod without the label of its name", replicas: 1, pods: []string{"0 b ready unlabelled"}, want: []string{"Update web-0 b"}},

		{name: "all at once", replicas: 3, options: options{parallel}, pods: []string{"1 b unready"}, want: []string{"Create web-0 b, Create web-2 b"}},
		{name: "not more than burstReplicas", replicas: 1_000_000_000, options: options{parallel}, pods: nil,
			want: []string{strings.Join(creations(burstReplicas), ", ")}},
		{name: "failed pods in parallel", replicas: 3, options: options{parallel}, pods: []string{"0 b failed", "1 b ready", "2 b succeeded"}, want: []string{"Delete web-0 b, Delete web-2 b"}},

		{name: "scale down, the last one first", replicas: 1, pods: []string{"0 b ready", "1 b ready", "2 b ready"}, want: []string{"Delete web-2 b"}},
		{name: "scale down, one at a time", replicas: 1, pods: []string{"0 b ready", "1 b ready", "2 b ready deleted"}},
		{name: "no scale down while a replica is not ready", replicas: 1, pods: []string{"0 b unready", "1 b ready", "2 b ready"}},
		{name: "no scale down while a lower one is not ready", replicas: 1, pods: []string{"0 b ready", "1 b unready", "2 b ready"}, want: []string{"Delete web-2 b"}},
		{name: "of two that are not ready, the lower one is awaited", replicas: 1, pods: []string{"0 b ready", "1 b unready", "2 b unready"}},
		{name: "the only one that is not ready is deleted", replicas: 1, pods: []string{"0 b ready", "1 b ready", "2 b unready"}, want: []string{"Delete web-2 b"}},
		{name: "scale down in parallel", replicas: 1, options: options{parallel}, pods: []string{"0 b unready", "1 b ready", "2 b ready deleted", "3 b unready"},
			want: []string{"Delete web-3 b, Delete web-1 b"}},

		{name: "update, the last one first", replicas: 3, pods: []string{"0 a ready", "1 a ready", "2 a ready"}, want: []string{"Delete web-2 a"}},
		{name: "update, the next one", replicas: 3, pods: []string{"0 a ready", "1 a ready", "2 b ready"}, want: []string{"Delete web-1 a"}},
		{name: "an updated pod is awaited", replicas: 3, pods: []string{"0 a ready", "1 a ready", "2 b unready"}},
		{name: "a broken revision is stuck", replicas: 3, pods: []string{"0 a ready", "1 a ready", "2 broken unready"}},
		{name: "no update during a scale down", replicas: 2, pods: []string{"0 a ready", "1 a ready", "2 a ready deleted"}},
		{name: "partition", replicas: 3, options: options{partition(2)}, pods: []string{"0 a ready", "1 a ready", "2 b ready"}},
		{name: "created below the partition", replicas: 3, options: options{partition(2)}, pods: []string{"0 a ready"}, want: []string{"Create web-1 a"}},
		{name: "created above the partition", replicas: 3, options: options{partition(1)}, pods: []string{"0 a ready"}, want: []string{"Create web-1 b"}},
		{name: "partition with other ordinals", replicas: 3, options: options{partition(2), startingAt(10)}, pods: []string{"10 a ready", "11 a ready", "12 a ready"}, want: []string{"Delete web-12 a"}},
		{name: "without a partition, below the current replicas", replicas: 3, options: options{noPartition(2)}, pods: []string{"0 a ready"}, want: []string{"Create web-1 a"}},
		{name: "without a partition, above the current replicas", replicas: 3, options: options{noPartition(1)}, pods: []string{"0 a ready"}, want: []string{"Create web-1 b"}},
		{name: "OnDelete", replicas: 2, options: options{onDelete}, pods: []string{"0 a ready", "1 a ready"}},
		{name: "OnDelete creates the update revision", replicas: 2, options: options{onDelete}, pods: []string{"0 a ready"}, want: []string{"Create web-1 b"}},
		{name: "a parallel update, one at a time", replicas: 3, options: options{parallel}, pods: []string{"0 a ready", "1 a ready", "2 a ready"}, want: []string{"Delete web-2 a"}},
		{name: "a parallel update repairs a broken revision", replicas: 3, options: options{parallel}, pods: []string{"0 a ready", "1 a ready", "2 broken unready"}, want: []string{"Delete web-2 broken"}},
		{name: "a parallel update awaits a pod that it creates", replicas: 3, options: options{parallel}, pods: []string{"0 a ready", "1 a ready"}, want: []string{"Create web-2 b"}},
		{name: "maxUnavailable", replicas: 4, options: options{unavailable(intstr.FromInt32(2))}, pods: []string{"0 a ready", "1 a ready", "2 a ready", "3 a ready"},
			want: []string{"Delete web-3 a, Delete web-2 a"}},
		{name: "maxUnavailable in percent, rounded down to at least one", replicas: 4, options: options{unavailable(intstr.FromString("10%"))}, pods: []string{"0 a ready", "1 a ready", "2 a ready", "3 a ready"},
			want: []string{"Delete web-3 a"}},
		{name: "maxUnavailable, less those that are", replicas: 4, options: options{parallel, unavailable(intstr.FromString("50%"))}, pods: []string{"0 b unready", "1 a ready", "2 a ready", "3 a ready"},
			want: []string{"Delete web-3 a"}},
		{name: "unavailable pods of other revisions are deleted at once in parallel", replicas: 4, options: options{parallel}, pods: []string{"0 a unready", "1 a unready", "2 a ready", "3 b ready"},
			want: []string{"Delete web-1 a, Delete web-0 a"}},
		{name: "the budget is left after the unavailable pods", replicas: 4, options: options{parallel, unavailable(intstr.FromInt32(2))}, pods: []string{"0 a unready", "1 a ready", "2 a ready", "3 b ready"},
			want: []string{"Delete web-0 a, Delete web-2 a"}},
		{name: "maxUnavailable is used up", replicas: 4, options: options{parallel, unavailable(intstr.FromInt32(2))}, pods: []string{"0 a ready", "1 a ready", "2 b unready", "3 b pending"}},
		{name: "unavailable below the partition", replicas: 3, options: options{parallel, partition(1)}, pods: []string{"0 a unready", "1 a ready", "2 a ready"}, want: []string{"Delete web-2 a"}},
		{name: "missing below the partition", replicas: 3, options: options{parallel, partition(1), startingAt(10)}, pods: []string{"11 a ready", "12 a ready"}, want: []string{"Create web-10 a", "Delete web-12 a"}},
		{name: "unavailable from the partition on", replicas: 3, options: options{parallel, partition(1)}, pods: []string{"0 a ready", "1 b unready", "2 a ready"}},
		{name: "maxUnavailable in percent of the replicas from the partition on", replicas: 6, options: options{partition(2), unavailable(intstr.FromString("50%"))},
			pods: []string{"0 a ready", "1 a ready", "2 a ready", "3 a ready", "4 a ready", "5 a ready"}, want: []string{"Delete web-5 a, Delete web-4 a"}},
		{name: "a partition beyond the replicas", replicas: 2, options: options{parallel, partition(5)}, pods: []string{"0 a unready", "1 a ready"}},
		{name: "a failed pod of another revision is deleted once", replicas: 2, options: options{parallel}, pods: []string{"0 a ready", "1 a failed"}, want: []string{"Delete web-1 a"}},

		{name: "claims are created before the pod", replicas: 1, options: options{claiming(retain, retain)}, want: []string{"+data-web-0 Create web-0 b"}},
		{name: "claims are kept", replicas: 1, options: options{claiming(retain, retain)}, claims: []string{"data-web-0"}, want: []string{"Create web-0 b"}},
		{name: "claims that the StatefulSet owns", replicas: 1, options: options{claiming(retain, always)}, want: []string{"+data-web-0 Create web-0 b"}},
		{name: "a claim that is being deleted is awaited", replicas: 2, options: options{claiming(retain, retain)}, claims: []string{"data-web-0 deleted"},
			want: []string{"awaits data-web-0 Create web-0 b"}},
		{name: "a claim of a pod that was scaled down is awaited", replicas: 2, options: options{claiming(always, retain)}, claims: []string{"data-web-0 Pod/web-0/earlier"}},
		{name: "a claim of a pending pod is created again", replicas: 1, options: options{claiming(retain, retain)}, pods: []string{"0 b pending"}, want: []string{"+data-web-0"}},
		{name: "a claim of a running pod is not", replicas: 1, options: options{claiming(retain, retain)}, pods: []string{"0 b ready"}},
		{name: "the policy becomes Delete", replicas: 1, options: options{claiming(retain, always)}, pods: []string{"0 b ready"}, claims: []string{"data-web-0"}, want: []string{"Update web-0 b ~data-web-0(StatefulSet)"}},
		{name: "the policy becomes Retain", replicas: 1, options: options{claiming(retain, retain)}, pods: []string{"0 b ready"}, claims: []string{"data-web-0 StatefulSet/web/web"}, want: []string{"Update web-0 b ~data-web-0"}},
		{name: "an owner that is not the controller", replicas: 1, options: options{claiming(retain, always)}, pods: []string{"0 b ready"}, claims: []string{"data-web-0 StatefulSet/web/web/owner"}, want: []string{"Update web-0 b ~data-web-0(StatefulSet)"}},
		{name: "other owners are kept", replicas: 1, options: options{claiming(retain, always)}, pods: []string{"0 b ready"}, claims: []string{"data-web-0 Thing/t/t/owner StatefulSet/web/web"}},
		{name: "another controller", replicas: 1, options: options{claiming(retain, always)}, pods: []string{"0 b ready"}, claims: []string{"data-web-0 Thing/t/t StatefulSet/web/web"}, want: []string{"Update web-0 b ~data-web-0(Thing) !data-web-0"}},
		{name: "an earlier StatefulSet of the same name", replicas: 1, options: options{claiming(retain, always)}, pods: []string{"0 b ready"}, claims: []string{"data-web-0 StatefulSet/web/earlier"}},
		{name: "the pod owns its claim when it is scaled down", replicas: 0, options: options{claiming(always, retain)}, pods: []string{"0 b ready"}, claims: []string{"data-web-0"},
			want: []string{"~data-web-0(Pod)", "Delete web-0 b"}},
		{name: "the pod and not the StatefulSet", replicas: 0, options: options{claiming(always, always)}, pods: []string{"0 b ready"}, claims: []string{"data-web-0 StatefulSet/web/web"},
			want: []string{"~data-web-0(Pod)", "Delete web-0 b"}},
		{name: "scaled up again before the pod is deleted", replicas: 1, options: options{claiming(always, always)}, pods: []string{"0 b ready"}, claims: []string{"data-web-0 Pod/web-0/web-0"},
			want: []string{"Update web-0 b ~data-web-0(StatefulSet)"}},
		{name: "all claims of a scale down first", replicas: 0, options: options{claiming(always, retain)}, pods: []string{"0 b ready", "1 b ready"}, claims: []string{"data-web-0", "data-web-1"},
			want: []string{"~data-web-1(Pod), ~data-web-0(Pod)", "Delete web-1 b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := setOf(tt.replicas, tt.options...)
			var pods []*corev1.Pod
			for _, description := range tt.pods {
				pods = append(pods, podIn(set, description))
			}
			slices.Reverse(pods)
			claims := map[string]*corev1.PersistentVolumeClaim{}
			for _, description := range tt.claims {
				c := claimIn(description)
				claims[c.Name] = c
			}
			before := maps.Clone(claims)
			if d := cmp.Diff(tt.want, describe(planFor(set, pods, claims))); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(before, claims); d != "" {
				t.Errorf("the plan changed its arguments: %s", d)
			}
		})
	}
}

func creations(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("Create web-%d b", i))
	}
	return list
}

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		name     string
		replicas int32
		options  []func(*appsv1.StatefulSet)
		pods     []string
		want     string // replicas, ready, available, current, updated; the current revision
		after    time.Duration
	}{
		{"none", 3, nil, nil, "0 0 0 0 0 a", 0},
		{"rolling", 3, nil, []string{"0 a ready", "1 a ready deleted", "2 b unready"}, "3 2 2 1 1 a", 0},
		{"complete", 2, nil, []string{"0 b ready", "1 b ready"}, "2 2 2 2 2 b", 0},
		{"complete with OnDelete", 1, []func(*appsv1.StatefulSet){onDelete}, []string{"0 b ready"}, "1 1 1 1 1 b", 0},
		{"not before the scale down", 1, nil, []string{"0 b ready", "1 b ready deleted"}, "2 2 2 0 1 a", 0},
		{"a pod that the plan deletes", 2, nil, []string{"0 a ready", "1 a ready"}, "2 2 2 2 0 a", 0},
		{"a pod of a third revision", 2, nil, []string{"0 a ready", "1 c ready"}, "2 2 2 1 0 a", 0},
		{"not available", 2, []func(*appsv1.StatefulSet){minReady}, []string{"0 b ready", "1 b new"}, "2 2 1 2 2 b", 59 * time.Second},
	} {
		set := setOf(tt.replicas, tt.options...)
		var pods []*corev1.Pod
		for _, description := range tt.pods {
			pods = append(pods, podIn(set, description))
		}
		p := planFor(set, pods, nil)
		s := p.status
		got := fmt.Sprint(s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas, " ", s.CurrentRevision)
		if got != tt.want || p.after != tt.after || s.UpdateRevision != "b" || s.ObservedGeneration != 3 || *s.CollisionCount != 0 {
			t.Errorf("%s: %s after %v, want %s after %v", tt.name, got, p.after, tt.want, tt.after)
		}
	}
}

func TestOrdinals(t *testing.T) {
	for name, want := range map[string]int{"web-0": 0, "web-12": 12, "web-2147483647": 1<<31 - 1, "web-2147483648": -1, "web-": -1, "web": -1,
		"web-x": -1, "web-01": -1, "web-+1": -1, "web--1": -1, "other-1": -1, "web-1-2": -1, "xweb-1": -1} {
		ordinal, ok := ordinalOf(setOf(1), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if ok != (want >= 0) || ok && ordinal != want {
			t.Errorf("%s: %d %v, want %d", name, ordinal, ok, want)
		}
	}
}

// TestNewPod checks the fields of a pod that do not come from the template.
func TestNewPod(t *testing.T) {
	set := setOf(3, claiming(retain, retain))
	set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "logs"}})
	from := templateWith("a")
	from.Annotations, from.Finalizers = map[string]string{"k": "v"}, []string{"example.com/f"}
	from.Spec.Hostname, from.Spec.Subdomain = "replaced", "replaced"
	from.Spec.Volumes = []corev1.Volume{{Name: "logs"}, {Name: "tmp"}}
	pod := newPod(set, revision{"web-1", &from}, 2)
	var volumes []string
	for _, v := range pod.Spec.Volumes {
		claim := ""
		if v.PersistentVolumeClaim != nil {
			claim = v.PersistentVolumeClaim.ClaimName
		}
		volumes = append(volumes, v.Name+"="+claim)
	}
	if d := cmp.Diff([]string{"data=data-web-2", "logs=logs-web-2", "tmp="}, volumes); d != "" {
		t.Error(d)
	}
	want := metav1.ObjectMeta{
		Name: "web-2", GenerateName: "web-", Namespace: "ns", Annotations: from.Annotations, Finalizers: from.Finalizers,
		Labels: map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": "web-2", "apps.kubernetes.io/pod-index": "2",
			"controller-revision-hash": "web-1"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)},
	}
	if d := cmp.Diff(want, pod.ObjectMeta); d != "" {
		t.Error(d)
	}
	if pod.Spec.Hostname != "web-2" || pod.Spec.Subdomain != "peers" || len(from.Labels) != 1 {
		t.Errorf("hostname %q, subdomain %q, labels of the template %v", pod.Spec.Hostname, pod.Spec.Subdomain, from.Labels)
	}
}
