package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
	"flyball.dev/apiserver/kinds/workload"
)

// ReplicaSets describes the kind ReplicaSet.
//
//upstream:pkg/registry/apps/replicaset.rsStrategy
//upstream:pkg/registry/apps/replicaset.rsStatusStrategy
//upstream:pkg/apis/apps/v1.SetDefaults_ReplicaSet
//upstream:pkg/apis/apps/validation.ValidateReplicaSetUpdate
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
		ValidateUpdate: func(r, old *appsv1.ReplicaSet) field.ErrorList {
			return append(validateReplicaSet(r, &old.Spec.Template), workload.SameSelector(r.Spec.Selector, old.Spec.Selector)...)
		},
		Warnings: func(r, old *appsv1.ReplicaSet) []string {
			return workload.Warnings(r, old, func() []string { return workload.TemplateWarnings(&r.Spec.Template) })
		},
		Status: true,
		ValidateStatus: func(r, _ *appsv1.ReplicaSet) field.ErrorList {
			return workload.ReplicaStatus(r.Status)
		},
		Generation: true,
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

//upstream:pkg/apis/apps/validation.ValidateReplicaSetSpec
func validateReplicaSet(r *appsv1.ReplicaSet, old *corev1.PodTemplateSpec) field.ErrorList {
	errs := fieldrules.OptionalNonNegative(r.Spec.Replicas, &fieldrules.Spec, "replicas")
	errs = append(errs, fieldrules.NonNegative(r.Spec.MinReadySeconds, &fieldrules.Spec, "minReadySeconds")...)
	return append(errs, workload.Template(r.Spec.Selector, &r.Spec.Template, old)...)
}
