package kinds

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
