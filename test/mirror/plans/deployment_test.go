package plans

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/deployment"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestDeployments compares how a Deployment creates, scales, annotates, adopts and deletes its ReplicaSets, and its status.
func TestDeployments(t *testing.T) {
	comparison{
		name:   "deployment",
		worlds: 1000,
		atLeast: map[string]int{"create replicasets.apps": 10, "update replicasets.apps": 40,
			"update status of deployments.apps": 60},
		kinds: []client.Object{&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &corev1.Pod{}},
		add:   deployment.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			d, err := upstream.NewDeploymentController(ctx, f.Apps().V1().Deployments(), f.Apps().V1().ReplicaSets(), f.Core().V1().Pods(), c)
			return func(ctx context.Context) { d.Run(ctx, 1) }, err
		},
		generate: generateDeployment,
	}.compare(t)
}

func generateDeployment(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	share := func() *intstr.IntOrString {
		return ptr.To(random.Pick(s, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(20), intstr.FromString("25%"),
			intstr.FromString("10%"), intstr.FromString("100%"), intstr.FromString("0%")))
	}
	d := &appsv1.Deployment{ObjectMeta: object(s, ns, "x"), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(int32(s.IntN(12))), Selector: newSelector(s), Template: newTemplate(s), MinReadySeconds: random.Pick[int32](s, 0, 0, 5, 30),
		RevisionHistoryLimit: ptr.To(int32(s.IntN(4))), ProgressDeadlineSeconds: ptr.To(random.Pick[int32](s, 60, 600)), Paused: s.Chance(12)}}
	delete(d.Spec.Template.Labels, "more")
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	if s.Chance(75) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: share(), MaxUnavailable: share()}}
	}
	if s.Chance(20) {
		d.Spec.RevisionHistoryLimit = nil
	}
	if s.Chance(20) {
		d.Spec.ProgressDeadlineSeconds = nil
	}
	if s.Chance(40) {
		d.Annotations = map[string]string{"note": "n", corev1.LastAppliedConfigAnnotation: "{}", "deployment.kubernetes.io/revision": strconv.Itoa(s.IntN(5))}
	}
	deleted(s, d)
	objects := []client.Object{d}
	scaled := false
	count := s.IntN(5)
	for i := range count {
		rs := newReplicaSet(s, d, i, count == 1)
		scaled = scaled || *rs.Spec.Replicas > 0 && metav1.IsControlledBy(rs, d) && rs.Labels["app"] == "x"
		if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && i > 0 {
			rs.Spec.Replicas = ptr.To[int32](0) // Kubernetes does not get past several active ReplicaSets; ours does
		}
		objects = append(objects, rs)
		for j := range s.IntN(3) {
			meta := object(s, ns, fmt.Sprint("p", i, "-", j))
			meta.Labels, meta.OwnerReferences = labelled(s), ownedBy(s, rs)
			objects = append(objects, newPod(s, meta))
		}
	}
	annotateSingle(d, objects)
	if d.Spec.Paused && !scaled {
		d.Spec.RevisionHistoryLimit = nil // Kubernetes scales a ReplicaSet up and, by its state before, deletes it
	}
	d.Status = newDeploymentStatus(s)
	forbidden := apierrors.NewForbidden(corev1.Resource("replicasets"), "", errors.New("exceeded quota"))
	if s.Chance(30) {
		forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	}
	if len(objects) > 1 {
		return objects, d, nil
	}
	return objects, d, refusing(s, forbidden, "create replicasets.apps")
}

// annotateSingle annotates the ReplicaSets that may be the only one with replicas and have as many as the Deployment should have.
// Kubernetes does not annotate them, and takes each pass for a change of the replicas (kubernetes/kubernetes#102551); ours does.
func annotateSingle(d *appsv1.Deployment, objects []client.Object) {
	active := 0
	for _, o := range objects {
		if rs, ok := o.(*appsv1.ReplicaSet); ok && *rs.Spec.Replicas > 0 && metav1.IsControlledBy(rs, d) && rs.Labels["app"] == "x" {
			active++
		}
	}
	for _, o := range objects {
		if rs, ok := o.(*appsv1.ReplicaSet); ok && active <= 1 && *rs.Spec.Replicas == *d.Spec.Replicas {
			rs.Annotations["deployment.kubernetes.io/desired-replicas"] = fmt.Sprint(*d.Spec.Replicas)
		}
	}
}

// newReplicaSet returns a ReplicaSet of a Deployment. alone is whether the Deployment has no other.
func newReplicaSet(s *random.Source, d *appsv1.Deployment, i int, alone bool) *appsv1.ReplicaSet {
	n := int32(s.IntN(12))
	if s.Chance(40) {
		n = 0
	}
	hash := fmt.Sprint("hash", i)
	rs := &appsv1.ReplicaSet{ObjectMeta: object(s, d.Namespace, "x-"+hash), Spec: appsv1.ReplicaSetSpec{Replicas: &n, Template: newTemplate(s),
		MinReadySeconds: random.Pick(s, d.Spec.MinReadySeconds, d.Spec.MinReadySeconds, 7)}}
	if s.Chance(50) {
		rs.Spec.Template = *d.Spec.Template.DeepCopy()
	}
	rs.Spec.Template.Labels["pod-template-hash"] = hash
	rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x", "pod-template-hash": hash}}
	rs.Labels, rs.OwnerReferences = map[string]string{"app": "x"}, []metav1.OwnerReference{*metav1.NewControllerRef(d, kindOf(d))}
	if s.Chance(15) {
		rs.Labels, rs.OwnerReferences = labelled(s), ownedBy(s, d)
		if !alone && metav1.GetControllerOf(rs) == nil {
			// Kubernetes scales a ReplicaSet that it adopts by the version before. That is a conflict, after which some of the
			// ReplicaSets are scaled already, and the others are scaled from there.
			n = 0
		}
	}
	rs.Labels["pod-template-hash"] = hash
	rs.Annotations = map[string]string{}
	annotate := func(key string, values ...string) {
		if s.Chance(80) {
			rs.Annotations["deployment.kubernetes.io/"+key] = random.Pick(s, values...)
		}
	}
	annotate("revision", fmt.Sprint(i+1), fmt.Sprint(i+1), fmt.Sprint(i+1), fmt.Sprint(s.IntN(9)), "x")
	annotate("desired-replicas", fmt.Sprint(*d.Spec.Replicas), fmt.Sprint(*d.Spec.Replicas), fmt.Sprint(s.IntN(12)), "-1", "y")
	annotate("max-replicas", fmt.Sprint(*d.Spec.Replicas+int32(s.IntN(3))), fmt.Sprint(s.IntN(15)), "z")
	if s.Chance(20) {
		rs.Annotations["deployment.kubernetes.io/revision-history"] = "1,2"
	}
	if s.Chance(20) {
		rs.Annotations["note"] = "m"
	}
	have := random.Pick(s, n, n, n, int32(s.IntN(12)))
	available := min(have, int32(s.IntN(13)))
	rs.Status = appsv1.ReplicaSetStatus{Replicas: have, FullyLabeledReplicas: have, ReadyReplicas: available, AvailableReplicas: available,
		ObservedGeneration: random.Pick(s, rs.Generation, rs.Generation, rs.Generation, rs.Generation-1)}
	if s.Chance(50) {
		rs.Status.TerminatingReplicas = ptr.To(int32(s.IntN(3)))
	}
	if s.Chance(10) {
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "quota",
			LastTransitionTime: metav1.NewTime(ago(s))}}
	}
	deleted(s, rs)
	return rs
}

func newDeploymentStatus(s *random.Source) appsv1.DeploymentStatus {
	status := appsv1.DeploymentStatus{}
	if s.Chance(70) {
		n := int32(s.IntN(12))
		status = appsv1.DeploymentStatus{Replicas: n, UpdatedReplicas: int32(s.IntN(int(n) + 1)), ReadyReplicas: int32(s.IntN(int(n) + 1)),
			AvailableReplicas: int32(s.IntN(int(n) + 1)), ObservedGeneration: int64(s.IntN(3))}
		status.UnavailableReplicas = n - status.AvailableReplicas
	}
	if s.Chance(20) {
		status.CollisionCount = ptr.To(int32(s.IntN(3)))
	}
	for _, kind := range []appsv1.DeploymentConditionType{appsv1.DeploymentAvailable, appsv1.DeploymentProgressing, appsv1.DeploymentReplicaFailure, "example.com/Other"} {
		if !s.Chance(45) {
			continue
		}
		status.Conditions = append(status.Conditions, appsv1.DeploymentCondition{Type: kind, Status: random.Pick(s, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown),
			Reason: random.Pick(s, "MinimumReplicasAvailable", "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded", "DeploymentPaused", "DeploymentResumed",
				"NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetCreateError"),
			Message: "earlier", LastUpdateTime: metav1.NewTime(ago(s)), LastTransitionTime: metav1.NewTime(ago(s))})
	}
	s.Shuffle(len(status.Conditions), func(i, j int) {
		status.Conditions[i], status.Conditions[j] = status.Conditions[j], status.Conditions[i]
	})
	return status
}
