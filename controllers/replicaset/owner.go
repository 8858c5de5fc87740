package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
)

// ownerKind is a kind of owners of pods. The plan is for ReplicaSets; other kinds are converted.
type ownerKind struct {
	schema.GroupVersionKind
	controller string // its name
	component  string // of its events
	newObject  func() client.Object
	newList    func() client.ObjectList
	// replicaSet returns an owner as a ReplicaSet, which may share the owner's memory.
	replicaSet func(client.Object) *appsv1.ReplicaSet
	// setStatus sets the status of an owner.
	setStatus func(client.Object, appsv1.ReplicaSetStatus)
	// legacy is set for ReplicationControllers. The pods of siblings do not count, and the status does not have the number of
	// terminating pods.
	legacy bool
}

// AddToManager adds the controller of ReplicaSets.
//
//upstream:pkg/controller/replicaset.NewReplicaSetController
func AddToManager(mgr manager.Manager) error {
	return addToManager(mgr, &ownerKind{
		GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		controller:       "replicaset",
		component:        "replicaset-controller",
		newObject:        func() client.Object { return &appsv1.ReplicaSet{} },
		newList:          func() client.ObjectList { return &appsv1.ReplicaSetList{} },
		replicaSet:       func(o client.Object) *appsv1.ReplicaSet { return o.(*appsv1.ReplicaSet) },
		setStatus:        func(o client.Object, s appsv1.ReplicaSetStatus) { o.(*appsv1.ReplicaSet).Status = s },
	})
}

// AddReplicationControllersToManager adds the controller of ReplicationControllers.
//
//upstream:pkg/controller/replication.NewReplicationManager
func AddReplicationControllersToManager(mgr manager.Manager) error {
	return addToManager(mgr, &ownerKind{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
		controller:       "replicationmanager",
		component:        "replication-controller",
		newObject:        func() client.Object { return &corev1.ReplicationController{} },
		newList:          func() client.ObjectList { return &corev1.ReplicationControllerList{} },
		replicaSet:       func(o client.Object) *appsv1.ReplicaSet { return fromController(o.(*corev1.ReplicationController)) },
		setStatus: func(o client.Object, s appsv1.ReplicaSetStatus) {
			setControllerStatus(o.(*corev1.ReplicationController), s)
		},
		legacy: true,
	})
}

// fromController returns a ReplicationController as a ReplicaSet.
//
//upstream:pkg/controller/replication.convertRCtoRS
func fromController(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	s := &rc.Status
	rs := &appsv1.ReplicaSet{
		ObjectMeta: rc.ObjectMeta,
		Spec:       appsv1.ReplicaSetSpec{Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds},
		Status: appsv1.ReplicaSetStatus{Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas,
			AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration},
	}
	if rc.Spec.Selector != nil {
		rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
	}
	if rc.Spec.Template != nil {
		rs.Spec.Template = *rc.Spec.Template
	}
	for _, c := range s.Conditions {
		rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
	return rs
}

// setControllerStatus gives a ReplicationController the status of a ReplicaSet.
//
//upstream:pkg/controller/replication.convertRStoRC
func setControllerStatus(rc *corev1.ReplicationController, s appsv1.ReplicaSetStatus) {
	rc.Status = corev1.ReplicationControllerStatus{Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas,
		AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration}
	for _, c := range s.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{Type: corev1.ReplicationControllerConditionType(c.Type),
			Status: c.Status, LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
}
