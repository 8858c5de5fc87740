package kinds

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

var replicaColumns = slices.Concat([]metav1.TableColumnDefinition{
	column("Desired", "integer", appsv1.ReplicaSetSpec{}.SwaggerDoc()["replicas"]),
	column("Current", "integer", appsv1.ReplicaSetStatus{}.SwaggerDoc()["replicas"]),
	column("Ready", "integer", appsv1.ReplicaSetStatus{}.SwaggerDoc()["readyReplicas"]),
}, wideContainers)

func validateReplicaSet(r *appsv1.ReplicaSet) field.ErrorList {
	errs := nonNegativeIf(r.Spec.Replicas, &specAt, "replicas")
	errs = append(errs, nonNegative(r.Spec.MinReadySeconds, &specAt, "minReadySeconds")...)
	errs = append(errs, selects(r.Spec.Selector, &r.Spec.Template, "deployment")...)
	return append(errs, restartsAlways(&r.Spec.Template, "ReplicaSet")...)
}

// replicaCount is the status of the kinds that keep a number of equal pods.
type replicaCount struct {
	replicas, labeled, ready, available int32
	terminating                         *int32
	observed                            int64
}

func replicaCounts(s appsv1.ReplicaSetStatus) replicaCount {
	return replicaCount{s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, s.TerminatingReplicas, s.ObservedGeneration}
}

func replicaStatus(s replicaCount) field.ErrorList {
	errs := counts(map[string]int32{"replicas": s.replicas, "fullyLabeledReplicas": s.labeled, "readyReplicas": s.ready, "availableReplicas": s.available})
	errs = append(errs, nonNegative(s.observed, &statusAt, "observedGeneration")...)
	errs = append(errs, nonNegativeIf(s.terminating, &statusAt, "terminatingReplicas")...)
	errs = append(errs, notMoreThan(s.labeled, "fullyLabeledReplicas", s.replicas, "status.replicas")...)
	errs = append(errs, notMoreThan(s.ready, "readyReplicas", s.replicas, "status.replicas")...)
	errs = append(errs, notMoreThan(s.available, "availableReplicas", s.replicas, "status.replicas")...)
	return append(errs, notMoreThan(s.available, "availableReplicas", s.ready, "readyReplicas")...)
}

func replicationControllers() Kind {
	return Of[*corev1.ReplicationController]{
		Type: &corev1.ReplicationController{}, List: &corev1.ReplicationControllerList{},
		Plural: "replicationcontrollers", ShortNames: []string{"rc"}, Categories: []string{"all"},
		Orphans:  true,
		Name:     subdomain,
		Default:  defaultReplicationController,
		Validate: validateReplicationController,
		Status:   true,
		ValidateStatus: func(r, _ *corev1.ReplicationController) field.ErrorList {
			s := r.Status
			return replicaStatus(replicaCount{s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, nil, s.ObservedGeneration})
		},
		Generation: true,
		Scale: &ScaleOf[*corev1.ReplicationController]{
			Replicas:       func(r *corev1.ReplicationController) int32 { return *r.Spec.Replicas },
			SetReplicas:    func(r *corev1.ReplicationController, n int32) { r.Spec.Replicas = &n },
			StatusReplicas: func(r *corev1.ReplicationController) int32 { return r.Status.Replicas },
			Selector: func(r *corev1.ReplicationController) *metav1.LabelSelector {
				return metav1.SetAsLabelSelector(r.Spec.Selector)
			},
		},
		Columns: replicaColumns,
		Row: func(r *corev1.ReplicationController) []any {
			var names, images string
			if r.Spec.Template != nil {
				names, images = containerCells(r.Spec.Template.Spec.Containers)
			}
			return []any{int64(*r.Spec.Replicas), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), names, images, labelCell(r.Spec.Selector)}
		},
		Fields: func(r *corev1.ReplicationController) fields.Set {
			return fields.Set{"status.replicas": decimal(r.Status.Replicas)}
		},
	}
}

// defaultReplicationController takes the labels and the selector from the template.
func defaultReplicationController(r *corev1.ReplicationController) {
	orElse(&r.Spec.Replicas, defaultReplicas)
	t := r.Spec.Template
	if t == nil {
		return
	}
	if len(t.Labels) > 0 {
		if len(r.Spec.Selector) == 0 {
			r.Spec.Selector = t.Labels
		}
		if len(r.Labels) == 0 {
			r.Labels = t.Labels
		}
	}
	defaultPodSpec(&t.Spec)
}

func validateReplicationController(r *corev1.ReplicationController) field.ErrorList {
	errs := nonNegativeIf(r.Spec.Replicas, &specAt, "replicas")
	errs = append(errs, nonNegative(r.Spec.MinReadySeconds, &specAt, "minReadySeconds")...)
	if len(r.Spec.Selector) == 0 {
		errs = append(errs, field.Required(specAt.of("selector"), ""))
	}
	if r.Spec.Template == nil {
		return append(errs, field.Required(specAt.of("template"), ""))
	}
	for _, k := range sorted(r.Spec.Selector) {
		if v, ok := r.Spec.Template.Labels[k]; !ok || v != r.Spec.Selector[k] {
			errs = append(errs, field.Invalid(specAt.of("template").Child("metadata", "labels"), r.Spec.Template.Labels, "`selector` does not match template `labels`"))
			break
		}
	}
	return append(errs, restartsAlways(r.Spec.Template, "ReplicationController")...)
}
