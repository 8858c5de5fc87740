package deployment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
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
					MaxSurge: new(intstr.FromString("25%")), MaxUnavailable: new(intstr.FromString("25%")),
				},
			},
			RevisionHistoryLimit:    new(int32(10)),
			ProgressDeadlineSeconds: new(int32(600)),
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

// setOf returns a ReplicaSet with the image as its name, and with a creation time derived from its revision.
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

// annotatedFor sets the annotations for a Deployment with these replicas.
func annotatedFor(replicas int32) func(*appsv1.ReplicaSet) {
	return func(rs *appsv1.ReplicaSet) { setReplicasAnnotations(deploymentOf(replicas, ""), rs) }
}

// summary has the ReplicaSets of a step, each by its image and replicas.
type summary struct {
	Create string
	Scale  map[string]int32
	Delete []string
}

// summarize returns the summary of a step.
func summarize(p step, sets []*appsv1.ReplicaSet) summary {
	s := summary{}
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

func TestNextStep(t *testing.T) {
	zero := intstr.FromInt32(0)
	for _, tt := range []struct {
		name    string
		d       *appsv1.Deployment
		sets    []*appsv1.ReplicaSet
		oldPods bool
		want    summary
	}{
		{name: "new", d: deploymentOf(3, "a"), want: summary{Create: "a 3"}},
		{name: "complete", d: deploymentOf(3, "a"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3)}},
		{name: "being deleted", d: deploymentOf(3, "b", func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3)}},
		{name: "new template: the surge", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)},
			want: summary{Create: "b 1"}},
		{name: "new template, no surge: an empty set", d: deploymentOf(4, "b", rolling(zero, intstr.FromInt32(1))), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)},
			want: summary{Create: "b 0"}},
		{name: "no surge: down first", d: deploymentOf(4, "b", rolling(zero, intstr.FromInt32(1))),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4), setOf("b", 2, 0, 0)},
			want: summary{Scale: map[string]int32{"a": 3}}},
		{name: "neither surge nor unavailable: one is unavailable", d: deploymentOf(4, "b", rolling(zero, zero)),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4), setOf("b", 2, 0, 0)},
			want: summary{Scale: map[string]int32{"a": 3}}},
		{name: "up before down", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3), setOf("b", 2, 1, 0)},
			want: summary{Scale: map[string]int32{"b": 2}}},
		{name: "waits for the new to be available", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3), setOf("b", 2, 2, 0)}},
		{name: "down as far as the new is available", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3), setOf("b", 2, 2, 2)},
			want: summary{Scale: map[string]int32{"a": 1}}},
		{name: "unavailable pods first", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 1), setOf("b", 2, 2, 2)},
			want: summary{Scale: map[string]int32{"a": 1}}},
		{name: "the last replicas", d: deploymentOf(4, "b"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 1, 1), setOf("b", 2, 4, 4)},
			want: summary{Scale: map[string]int32{"a": 0}}},
		{name: "back to an old template: its annotations first", d: deploymentOf(4, "a"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0), setOf("b", 2, 4, 4)}},
		{name: "back to an old template", d: deploymentOf(4, "a"), sets: []*appsv1.ReplicaSet{setOf("a", 3, 0, 0), setOf("b", 2, 4, 4)},
			want: summary{Scale: map[string]int32{"a": 1}}},
		{name: "a third template before the second is complete: the oldest is scaled down first", d: deploymentOf(4, "c"),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 2, 2), setOf("b", 2, 2, 2), setOf("c", 3, 1, 1)},
			want: summary{Scale: map[string]int32{"a": 0}}},
		{name: "scaled", d: deploymentOf(6, "a"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3, annotatedFor(3))},
			want: summary{Scale: map[string]int32{"a": 6}}},
		{name: "scaled to zero", d: deploymentOf(0, "a"), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3, annotatedFor(3))},
			want: summary{Scale: map[string]int32{"a": 0}}},
		{name: "scaled during a rollout", d: deploymentOf(12, "b"),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 6, 6, annotatedFor(8)), setOf("b", 2, 4, 2, annotatedFor(8))},
			want: summary{Scale: map[string]int32{"a": 9, "b": 6}}},
		{name: "paused", d: deploymentOf(4, "b", paused), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)}},
		{name: "paused and scaled", d: deploymentOf(6, "b", paused), sets: []*appsv1.ReplicaSet{setOf("a", 1, 4, 4)},
			want: summary{Scale: map[string]int32{"a": 6}}},
		{name: "Recreate: first down", d: deploymentOf(3, "b", recreate), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3)}, oldPods: true,
			want: summary{Scale: map[string]int32{"a": 0}}},
		{name: "Recreate: waits for the deletion of the pods", d: deploymentOf(3, "b", recreate), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)}, oldPods: true},
		{name: "Recreate: then up", d: deploymentOf(3, "b", recreate), sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0)},
			want: summary{Create: "b 3"}},
		{name: "Recreate: scaled", d: deploymentOf(6, "a", recreate), sets: []*appsv1.ReplicaSet{setOf("a", 1, 3, 3, annotatedFor(3))},
			want: summary{Scale: map[string]int32{"a": 6}}},
		{name: "Recreate: scaled in the rollout of another strategy", d: deploymentOf(6, "b", recreate),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 2, 2, annotatedFor(3)), setOf("b", 2, 1, 1, annotatedFor(3))},
			want: summary{Scale: map[string]int32{"a": 0}}},
		{name: "Recreate: paused and scaled in the rollout of another strategy", d: deploymentOf(6, "b", recreate, paused),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 2, 2, annotatedFor(3)), setOf("b", 2, 1, 1, annotatedFor(3))}},
		{name: "history", d: deploymentOf(3, "d", func(d *appsv1.Deployment) {
			d.Spec.RevisionHistoryLimit = new(int32(1))
			d.Status = appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}
		}),
			sets: []*appsv1.ReplicaSet{setOf("c", 3, 0, 0), setOf("a", 1, 0, 0), setOf("b", 2, 0, 0), setOf("d", 4, 3, 3)},
			want: summary{Delete: []string{"a", "b"}}},
		{name: "history: a ReplicaSet with replicas counts", d: deploymentOf(3, "c", paused, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(1)) }),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0), setOf("b", 2, 3, 3, annotatedFor(3))},
			want: summary{Delete: []string{"a"}}},
		{name: "history is kept during a rollout", d: deploymentOf(3, "d", func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(0)) }),
			sets: []*appsv1.ReplicaSet{setOf("a", 1, 0, 0), setOf("d", 4, 3, 2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, summarize(nextStep(tt.d, tt.sets, tt.oldPods), tt.sets)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRevisions(t *testing.T) {
	d := deploymentOf(1, "a", func(d *appsv1.Deployment) { d.Annotations = map[string]string{"note": "x", revisionAnnotation: "2"} })
	p := nextStep(d, []*appsv1.ReplicaSet{setOf("a", 1, 0, 0), setOf("b", 2, 1, 1)}, false)
	if len(p.update) == 0 {
		t.Fatal(p)
	}
	want := map[string]string{"note": "x", revisionAnnotation: "3", revisionHistoryAnnotation: "1"}
	if d := cmp.Diff(want, p.update[0].Annotations); d != "" {
		t.Error(d)
	}
}

// TestRevisionHistory: the history drops the oldest revisions, and a revision that is not a number stays.
func TestRevisionHistory(t *testing.T) {
	rs := setOf("a", 1, 0, 0)
	for n := range int64(2000) {
		setNewReplicaSetAnnotations(deploymentOf(1, "a"), rs, n+2)
	}
	history := rs.Annotations[revisionHistoryAnnotation]
	if len(history) > maxRevisionHistory || !strings.HasSuffix(history, ",1999,2000") || rs.Annotations[revisionAnnotation] != "2001" {
		t.Errorf("revision %s after %d bytes of history: %s", rs.Annotations[revisionAnnotation], len(history), history)
	}
	rs.Annotations[revisionAnnotation] = "x"
	if setNewReplicaSetAnnotations(deploymentOf(1, "a"), rs, 3000); rs.Annotations[revisionAnnotation] != "x" {
		t.Errorf("revision %s", rs.Annotations[revisionAnnotation])
	}
}

// TestReplicaSetNames compares with names that kube-controller-manager 1.37 gives.
func TestReplicaSetNames(t *testing.T) {
	d := deploymentOf(1, "nginx")
	if got, want := newReplicaSet(d, nil).Name, "web-969cd65dd"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	d.Status.CollisionCount = new(int32(1))
	if got, want := newReplicaSet(d, nil).Name, "web-6cfbb99f8f"; got != want {
		t.Errorf("after a collision: %s, want %s", got, want)
	}
	d.Name = strings.Repeat("w", 253)
	if got := newReplicaSet(d, nil).Name; len(got) != 253 || !strings.HasPrefix(got, "www") {
		t.Errorf("of a long name: %s", got)
	}
}

// TestRolloutInvariants runs random rollouts, with pods that become available at random, and checks
// after every step that enough pods are available and that there are not too many.
func TestRolloutInvariants(t *testing.T) {
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
				p := nextStep(d, sets, false)
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
				simulate(sets, r)
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

// TestRolloutsThatAreRefused scales and updates Deployments at random, while some writes of ReplicaSets are refused, and then none.
// Each rollout must come to its end.
func TestRolloutsThatAreRefused(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := deploymentOf(1+int32(r.IntN(6)), "i0", rolling(intstr.FromInt32(int32(r.IntN(2))), intstr.FromInt32(int32(r.IntN(2)))))
		if r.IntN(4) == 0 {
			recreate(d)
		}
		var sets []*appsv1.ReplicaSet
		for i := range 1000 {
			calm := i > 60
			if !calm && r.IntN(5) == 0 {
				d.Spec.Replicas = new(int32(r.IntN(7)))
				d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("i%d", r.IntN(3))
				d.Spec.Paused = r.IntN(4) == 0
			}
			if calm {
				d.Spec.Paused = false
			}
			old := slices.ContainsFunc(sets, func(rs *appsv1.ReplicaSet) bool {
				return rs.Spec.Template.Spec.Containers[0].Image != d.Spec.Template.Spec.Containers[0].Image && rs.Status.Replicas > 0
			})
			p := nextStep(d, sets, recreates(d) && old)
			if p.create != nil {
				p.create.UID = types.UID(fmt.Sprint(i))
				p.create.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
				sets = append(sets, p.create)
			}
			for _, c := range p.update {
				if calm || r.IntN(3) > 0 {
					sets[slices.IndexFunc(sets, func(s *appsv1.ReplicaSet) bool { return s.UID == c.UID })] = c
				}
			}
			d.Status = statusOf(d, sets)
			if calm && complete(d, d.Status) && len(p.update) == 0 && p.create == nil {
				break
			}
			if i == 999 {
				t.Fatalf("seed %d: the rollout of %d does not end: %+v", seed, desired(d), sets)
			}
			simulate(sets, r)
		}
	}
}

// simulate moves the status of each ReplicaSet towards its spec; available pods are deleted last.
func simulate(sets []*appsv1.ReplicaSet, r *rand.Rand) {
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
