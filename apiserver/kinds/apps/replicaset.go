package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
	"flyball.dev/apiserver/kinds/workload"
)

// ReplicaSets describes the kind ReplicaSet.
//
//upstream:pkg/registry/apps/replicaset.rsStrategy
//upstream:pkg/registry/apps/replicaset.rsStatusStrategy
//upstream:pkg/apis/apps/v1.SetDefaults_ReplicaSet
//upstream:pkg/apis/apps/validation.ValidateReplicaSetStatus
//upstream:pkg/printers/internalversion.printReplicaSet
//upstream:pkg/registry/apps/replicaset/storage.REST.ShortNames
//upstream:pkg/registry/apps/replicaset/storage.REST.Categories
func ReplicaSets() kinds.Kind {
	return kinds.Of[*appsv1.ReplicaSet]{
		Type: &appsv1.ReplicaSet{}, List: &appsv1.ReplicaSetList{},
		Plural: "replicasets", ShortNames: []string{"rs"}, Categories: []string{"all"},
		Name: fieldrules.NameIsSubdomain,
		Default: func(r *appsv1.ReplicaSet) {
			fieldrules.DefaultPointer(&r.Spec.Replicas, workload.DefaultReplicas)
			podspec.SetDefaults(&r.Spec.Template.Spec)
		},
		ValidateCreate: func(r *appsv1.ReplicaSet) field.ErrorList { return validateReplicaSet(r, nil) },
		ValidateUpdate: validateReplicaSet,
		Warnings: func(r, old *appsv1.ReplicaSet) []string {
			return workload.Warnings(r, old, func() []string { return workload.TemplateWarnings(&r.Spec.Template) })
		},
		Status:         true,
		ValidateStatus: func(r, _ *appsv1.ReplicaSet) field.ErrorList { return workload.ReplicaStatus(r.Status) },
		Generation:     true,
		Scale: &kinds.ScaleOf[*appsv1.ReplicaSet]{
			Replicas:       func(r *appsv1.ReplicaSet) int32 { return *r.Spec.Replicas },
			SetReplicas:    func(r *appsv1.ReplicaSet, n int32) { r.Spec.Replicas = &n },
			StatusReplicas: func(r *appsv1.ReplicaSet) int32 { return r.Status.Replicas },
			Selector:       func(r *appsv1.ReplicaSet) *metav1.LabelSelector { return r.Spec.Selector },
		},
		Columns: workload.ReplicaColumns,
		Row: func(r *appsv1.ReplicaSet) []any {
			return append([]any{int64(*r.Spec.Replicas), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas)},
				workload.WideContainerCells(&r.Spec.Template, r.Spec.Selector)...)
		},
	}
}

// validateReplicaSet checks a ReplicaSet. The old one is nil on create.
//
//upstream:pkg/apis/apps/validation.ValidateReplicaSetSpec
//upstream:pkg/apis/apps/validation.ValidateReplicaSetUpdate
func validateReplicaSet(r, old *appsv1.ReplicaSet) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &r.Spec
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.Spec.Template
	}
	check.NonNegative(spec.Child("replicas"), s.Replicas)
	check.NonNegative(spec.Child("minReadySeconds"), &s.MinReadySeconds)
	workload.Template(spec, s.Selector, &s.Template, was)
	if old != nil {
		check.Immutable(spec.Child("selector"), s.Selector, old.Spec.Selector)
	}
	return errs
}
