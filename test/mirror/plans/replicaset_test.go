package plans

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/replicaset"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestReplicaSets compares which pods a ReplicaSet adopts, releases, creates and deletes, and its status.
func TestReplicaSets(t *testing.T) {
	comparison{
		name:    "replicaset",
		worlds:  1000,
		atLeast: map[string]int{"create pods": 15, "delete pods": 15, "update pods": 15, "update status of replicasets.apps": 60},
		kinds:   []client.Object{&appsv1.ReplicaSet{}, &corev1.Pod{}},
		add:     replicaset.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			r := upstream.NewReplicaSetController(ctx, f.Apps().V1().ReplicaSets(), f.Core().V1().Pods(), c, upstream.BurstReplicas)
			return func(ctx context.Context) { r.Run(ctx, 1) }, nil
		},
		generate: generateReplicaSet,
	}.compare(t)
}

// TestReplicationControllers compares the same of ReplicationControllers.
func TestReplicationControllers(t *testing.T) {
	comparison{
		name:    "replicationcontroller",
		worlds:  1000,
		atLeast: map[string]int{"create pods": 15, "delete pods": 15, "update pods": 15, "update status of replicationcontrollers": 60},
		kinds:   []client.Object{&corev1.ReplicationController{}, &corev1.Pod{}},
		add:     replicaset.AddReplicationControllersToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			r := replication.NewReplicationManager(ctx, f.Core().V1().Pods(), f.Core().V1().ReplicationControllers(), c, replication.BurstReplicas)
			return func(ctx context.Context) { r.Run(ctx, 1) }, nil
		},
		generate: func(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
			objects, _, refuse := generateReplicaSet(s)
			for i, o := range objects {
				objects[i] = withControllers(o)
			}
			return objects, objects[0], refuse
		},
	}.compare(t)
}

// withControllers returns a ReplicaSet as a ReplicationController, and other objects with such owners.
func withControllers(o client.Object) client.Object {
	rs, ok := o.(*appsv1.ReplicaSet)
	if !ok {
		refs := o.GetOwnerReferences()
		for i := range refs {
			if refs[i].Kind == "ReplicaSet" {
				refs[i].APIVersion, refs[i].Kind = "v1", "ReplicationController"
			}
		}
		o.SetOwnerReferences(refs)
		return o
	}
	rc := &corev1.ReplicationController{ObjectMeta: rs.ObjectMeta, Spec: corev1.ReplicationControllerSpec{Replicas: rs.Spec.Replicas,
		Selector: rs.Spec.Selector.MatchLabels, Template: &rs.Spec.Template, MinReadySeconds: rs.Spec.MinReadySeconds}}
	if rc.Spec.Selector == nil {
		rc.Spec.Selector = map[string]string{"app": "x"}
	}
	rc.Status = corev1.ReplicationControllerStatus{Replicas: rs.Status.Replicas, ReadyReplicas: rs.Status.ReadyReplicas, ObservedGeneration: rs.Status.ObservedGeneration}
	for _, c := range rs.Status.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{Type: corev1.ReplicationControllerConditionType(c.Type),
			Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
	return rc
}

func generateReplicaSet(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	rs := &appsv1.ReplicaSet{ObjectMeta: object(s, ns, "x"), Spec: appsv1.ReplicaSetSpec{
		Replicas: ptr.To(int32(s.IntN(8))), Selector: newSelector(s), Template: newTemplate(s), MinReadySeconds: random.Pick[int32](s, 0, 0, 5, 30)}}
	if len(rs.Spec.Selector.MatchExpressions) > 0 {
		delete(rs.Spec.Template.Labels, "more") // so that the selector matches
	}
	deleted(s, rs)
	objects := []client.Object{rs}
	var sibling *appsv1.ReplicaSet
	if s.Chance(40) { // the ReplicaSets of a Deployment
		rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d", Controller: ptr.To(true)}}
		sibling = rs.DeepCopy()
		sibling.ObjectMeta = object(s, ns, "sibling")
		sibling.OwnerReferences = rs.OwnerReferences
		sibling.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "sibling"}}
		objects = append(objects, sibling)
	}
	if s.Chance(30) {
		rs.Status = appsv1.ReplicaSetStatus{Replicas: int32(s.IntN(5)), ReadyReplicas: int32(s.IntN(3)), ObservedGeneration: int64(s.IntN(3))}
	}
	if s.Chance(20) {
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: random.Pick[appsv1.ReplicaSetConditionType](s, "ReplicaFailure", "Other"), Status: corev1.ConditionTrue,
			Reason: "FailedCreate", Message: "earlier"}}
	}
	for i := range s.IntN(10) {
		meta := object(s, ns, fmt.Sprint("p", i))
		meta.Labels, meta.OwnerReferences = labelled(s), ownedBy(s, rs)
		if sibling != nil && s.Chance(25) {
			meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sibling, kindOf(sibling))}
		}
		objects = append(objects, newPod(s, meta))
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", fmt.Errorf("exceeded quota"))
	if s.Chance(30) {
		forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	}
	return objects, rs, refusing(s, forbidden, "create pods", "delete pods", "update pods")
}
