package kinds

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func replicaSets() Kind {
	return Of[*appsv1.ReplicaSet]{
		Type: &appsv1.ReplicaSet{}, List: &appsv1.ReplicaSetList{},
		Plural: "replicasets", ShortNames: []string{"rs"}, Categories: []string{"all"},
		Name: subdomain,
		Default: func(r *appsv1.ReplicaSet) {
			orElse(&r.Spec.Replicas, defaultReplicas)
			defaultPodSpec(&r.Spec.Template.Spec)
		},
		Validate: validateReplicaSet,
		ValidateUpdate: func(r, old *appsv1.ReplicaSet) field.ErrorList {
			return sameSelector(r.Spec.Selector, old.Spec.Selector)
		},
		Warnings:       func(r, _ *appsv1.ReplicaSet) []string { return templateWarnings(&r.Spec.Template) },
		Status:         true,
		ValidateStatus: func(r, _ *appsv1.ReplicaSet) field.ErrorList { return replicaStatus(replicaCounts(r.Status)) },
		Generation:     true,
		Scale: &ScaleOf[*appsv1.ReplicaSet]{
			Replicas:       func(r *appsv1.ReplicaSet) int32 { return *r.Spec.Replicas },
			SetReplicas:    func(r *appsv1.ReplicaSet, n int32) { r.Spec.Replicas = &n },
			StatusReplicas: func(r *appsv1.ReplicaSet) int32 { return r.Status.Replicas },
			Selector:       func(r *appsv1.ReplicaSet) *metav1.LabelSelector { return r.Spec.Selector },
		},
		Columns: replicaColumns,
		Row: func(r *appsv1.ReplicaSet) []any {
			return append([]any{int64(*r.Spec.Replicas), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas)},
				wideContainerCells(&r.Spec.Template, r.Spec.Selector)...)
		},
		Fields: func(r *appsv1.ReplicaSet) fields.Set {
			return fields.Set{"status.replicas": decimal(r.Status.Replicas)}
		},
	}
}

func validateReplicaSet(r *appsv1.ReplicaSet) field.ErrorList {
	errs := nonNegativeIf(r.Spec.Replicas, &specAt, "replicas")
	errs = append(errs, nonNegative(r.Spec.MinReadySeconds, &specAt, "minReadySeconds")...)
	errs = append(errs, selects(r.Spec.Selector, &r.Spec.Template, "deployment")...)
	return append(errs, restartsAlways(&r.Spec.Template, "ReplicaSet")...)
}
