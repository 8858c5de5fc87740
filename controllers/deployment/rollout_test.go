package deployment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func ptr[T any](v T) *T { return &v }

func deploymentOf(replicas int32, image string, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
			},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge: ptr(intstr.FromString("25%")), MaxUnavailable: ptr(intstr.FromString("25%")),
				},
			},
			RevisionHistoryLimit:    ptr(int32(10)),
			ProgressDeadlineSeconds: ptr(int32(600)),
		},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

func paused(d *appsv1.Deployment) { d.Spec.Paused = true }
func recreate(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
}

func rolling(surge, unavailable intstr.IntOrString) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}
	}
}

// setOf makes the set for an image; its name is the image, its age grows with its revision.
func setOf(image string, revision int, replicas, available int32, change ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	d := deploymentOf(replicas, image)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: image, UID: types.UID(image), Namespace: "ns", Labels: map[string]string{"app": "web"},
			CreationTimestamp: metav1.NewTime(time.Unix(int64(revision), 0)),
			Annotations:       map[string]string{revisionAnnotation: strconv.Itoa(revision)},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: d.Spec.Selector, Template: d.Spec.Template},
		Status: appsv1.ReplicaSetStatus{
			Replicas: replicas, ReadyReplicas: available, AvailableReplicas: available,
		},
	}
	for _, c := range change {
		c(rs)
	}
	return rs
}

func notedFor(replicas int32) func(*appsv1.ReplicaSet) {
	return func(rs *appsv1.ReplicaSet) {
		rs.Annotations[desiredAnnotation] = strconv.Itoa(int(replicas))
	}
}

// said is a plan in the fewest words: the image and replicas of the new set, and those that change.
type said struct {
	Create string
	Scale  map[string]int32
	Delete []string
}

func say(p plan, sets []*appsv1.ReplicaSet) said {
	s := said{}
	if p.create != nil {
		s.Create = fmt.Sprint(p.create.Spec.Template.Spec.Containers[0].Image, " ", replicas(p.create))
	}
	for _, rs := range p.update {
		was := sets[slices.IndexFunc(sets, func(s *appsv1.ReplicaSet) bool { return s.UID == rs.UID })]
		if replicas(was) != replicas(rs) {
			if s.Scale == nil {
				s.Scale = map[string]int32{}
			}
			s.Scale[rs.Name] = replicas(rs)
		}
	}
	for _, rs := range p.delete {
		s.Delete = append(s.Delete, rs.Name)
	}
	return s
}

func TestPlan(t *testing.T) {
	zero := intstr.FromInt32(0)
	for _, tt := range []struct {
		name    string
		d       *appsv1.Deployment
		sets    []*appsv1.ReplicaSet
		oldPods bool
		want    said
	}{
		{name: "begins", d: deploymentOf(3, "a"), want: said{Create: "a 3"}},
		{name: "is done", d: deploymentOf(3, "a"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3)}},
		{name: "is going", d: deploymentOf(3, "b", func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3)}},
		{name: "new template: the surge", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)},
			want: said{Create: "b 1"}},
		{name: "new template, no surge: an empty set", d: deploymentOf(4, "b", rolling(zero, intstr.FromInt32(1))), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)},
			want: said{Create: "b 0"}},
		{name: "no surge: down first", d: deploymentOf(4, "b", rolling(zero, intstr.FromInt32(1))),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4), setOf("b", 2, 0, 0)},
			want: said{Scale: map[string]int32{"a": 3}}},
		{name: "neither surge nor unavailable: one may be", d: deploymentOf(4, "b", rolling(zero, zero)),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4), setOf("b", 2, 0, 0)},
			want: said{Scale: map[string]int32{"a": 3}}},
		{name: "up before down", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3), setOf("b", 2, 1, 0)},
			want: said{Scale: map[string]int32{"b": 2}}},
		{name: "waits for the new to be available", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3), setOf("b", 2, 2, 0)}},
		{name: "down as far as the new is available", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3), setOf("b", 2, 2, 2)},
			want: said{Scale: map[string]int32{"a": 1}}},
		{name: "what is not available is no loss", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 1), setOf("b", 2, 2, 2)},
			want: said{Scale: map[string]int32{"a": 1}}},
		{name: "the last ones", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 1, 1), setOf("b", 2, 4, 4)},
			want: said{Scale: map[string]int32{"a": 0}}},
		{name: "back to an old template", d: deploymentOf(4, "a"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0), setOf("b", 2, 4, 4)},
			want: said{Scale: map[string]int32{"a": 1}}},
		{name: "a third template before the second is done: the oldest goes first", d: deploymentOf(4, "c"),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 2, 2), setOf("b", 2, 2, 2), setOf("c", 3, 1, 1)},
			want: said{Scale: map[string]int32{"a": 0}}},
		{name: "scaled", d: deploymentOf(6, "a"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3, notedFor(3))},
			want: said{Scale: map[string]int32{"a": 6}}},
		{name: "scaled to nothing", d: deploymentOf(0, "a"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3, notedFor(3))},
			want: said{Scale: map[string]int32{"a": 0}}},
		{name: "scaled in the middle of a rollout", d: deploymentOf(12, "b"),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 6, 6, notedFor(8)), setOf("b", 2, 4, 2, notedFor(8))},
			want: said{Scale: map[string]int32{"a": 9, "b": 6}}},
		{name: "paused", d: deploymentOf(4, "b", paused), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)}},
		{name: "paused and scaled", d: deploymentOf(6, "b", paused), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)},
			want: said{Scale: map[string]int32{"a": 6}}},
		{name: "recreated: first down", d: deploymentOf(3, "b", recreate), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3)}, oldPods: true,
			want: said{Scale: map[string]int32{"a": 0}}},
		{name: "recreated: waits for the pods to be gone", d: deploymentOf(3, "b", recreate), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)}, oldPods: true},
		{name: "recreated: then up", d: deploymentOf(3, "b", recreate), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)},
			want: said{Create: "b 3"}},
		{name: "history", d: deploymentOf(3, "d", func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr(int32(1)) }),
			sets: []*appsv1.ReplicaSet{setOf("c", 3, 0, 0), setOf("a", 1, 0, 0), setOf("b", 2, 0, 0), setOf("d", 4, 3, 3)},
			want: said{Delete: []string{"a", "b"}}},
		{name: "history is kept while a rollout goes on", d: deploymentOf(3, "d", func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr(int32(0)) }),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0), setOf("d", 4, 3, 2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := planFor(tt.d, tt.sets, tt.oldPods)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, say(p, tt.sets)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRevisions(t *testing.T) {
	d := deploymentOf(1, "a", func(d *appsv1.Deployment) { d.Annotations = map[string]string{"note": "x", revisionAnnotation: "2"} })
	p, err := planFor(d, []*appsv1.ReplicaSet{setOf("a", 1, 0, 0), setOf("b", 2, 1, 1)}, false)
	if err != nil || len(p.update) == 0 {
		t.Fatalf("%v %v", p, err)
	}
	want := map[string]string{"note": "x", revisionAnnotation: "3", revisionHistoryAnnotation: "1", desiredAnnotation: "1", maximumAnnotation: "2"}
	if d := cmp.Diff(want, p.update[0].Annotations); d != "" {
		t.Error(d)
	}
}

// TestRolloutsKeepTheirPromises rolls at random, with pods that take their time, and looks at every
// step whether enough are available and not too many are there.
func TestRolloutsKeepTheirPromises(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := deploymentOf(1+int32(r.IntN(10)), "i0", rolling(intstr.FromInt32(int32(r.IntN(4))), intstr.FromInt32(int32(r.IntN(4)))))
		var sets []*appsv1.ReplicaSet
		next := 0
		for round := range 4 {
			d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("i%d", r.IntN(3))
			for steps := 0; ; steps++ {
				if steps > 1000 {
					t.Fatalf("seed %d: round %d does not end: %v", seed, round, sets)
				}
				p, err := planFor(d, sets, false)
				if err != nil {
					t.Fatal(err)
				}
				if p.create != nil {
					next++
					p.create.UID = types.UID(fmt.Sprint(next))
					p.create.CreationTimestamp = metav1.NewTime(time.Unix(int64(next), 0))
					sets = append(sets, p.create)
				}
				for _, c := range p.update {
					sets[slices.IndexFunc(sets, func(s *appsv1.ReplicaSet) bool { return s.UID == c.UID })] = c
				}
				if s := statusOf(d, sets); complete(d, s) && len(p.update) == 0 && p.create == nil {
					break
				}
				liveOn(sets, r)
				spec, avail := sum(sets, replicas), sum(sets, available)
				if most := desired(d) + maxSurge(d); spec > most {
					t.Fatalf("seed %d: %d replicas wanted, at most %d allowed", seed, spec, most)
				}
				if least := desired(d) - maxUnavailable(d); round > 0 && avail < least {
					t.Fatalf("seed %d: %d available, at least %d promised", seed, avail, least)
				}
			}
		}
	}
}

// liveOn lets each set take a step towards what it is to have; the available are the last to go.
func liveOn(sets []*appsv1.ReplicaSet, r *rand.Rand) {
	for _, rs := range sets {
		switch r.IntN(3) {
		case 0:
			rs.Status.Replicas = replicas(rs)
			rs.Status.AvailableReplicas = min(rs.Status.AvailableReplicas, rs.Status.Replicas)
		case 1:
			if rs.Status.AvailableReplicas < min(rs.Status.Replicas, replicas(rs)) {
				rs.Status.AvailableReplicas++
			}
		}
	}
}
