package core

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
	"flyball.dev/apiserver/kinds/workload"
)

// ReplicationControllers describes the kind ReplicationController.
//
//upstream:pkg/registry/core/replicationcontroller.rcStrategy
//upstream:pkg/registry/core/replicationcontroller.rcStatusStrategy
//upstream:pkg/registry/core/replicationcontroller.ControllerToSelectableFields
//upstream:pkg/registry/core/replicationcontroller/storage.ScaleREST
//upstream:pkg/registry/core/replicationcontroller/storage.REST.ShortNames
//upstream:pkg/registry/core/replicationcontroller/storage.REST.Categories
//upstream:pkg/apis/core/v1.addConversionFuncs
//upstream:pkg/apis/core/validation.ValidateReplicationControllerStatus
//upstream:pkg/printers/internalversion.printReplicationController
func ReplicationControllers() kinds.Kind {
	return kinds.Of[*corev1.ReplicationController]{
		Type: &corev1.ReplicationController{}, List: &corev1.ReplicationControllerList{},
		Plural: "replicationcontrollers", ShortNames: []string{"rc"}, Categories: []string{"all"},
		Orphans: true,
		Name: func(name string, prefix bool) []string {
			if prefix { // only the generated name is checked
				return nil
			}
			return content.IsDNS1123Subdomain(name)
		},
		Default:        defaultReplicationController,
		ValidateCreate: func(r *corev1.ReplicationController) field.ErrorList { return validateReplicationController(r, nil) },
		ValidateUpdate: func(r, old *corev1.ReplicationController) field.ErrorList {
			return validateReplicationController(r, old.Spec.Template)
		},
		Warnings: controllerWarnings,
		Status:   true,
		ValidateStatus: func(r, _ *corev1.ReplicationController) field.ErrorList {
			s := r.Status
			return workload.ReplicaStatus(appsv1.ReplicaSetStatus{
				Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas,
				AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration,
			})
		},
		Generation: true,
		Scale: &kinds.ScaleOf[*corev1.ReplicationController]{
			Replicas:       func(r *corev1.ReplicationController) int32 { return *r.Spec.Replicas },
			SetReplicas:    func(r *corev1.ReplicationController, n int32) { r.Spec.Replicas = &n },
			StatusReplicas: func(r *corev1.ReplicationController) int32 { return r.Status.Replicas },
			Selector: func(r *corev1.ReplicationController) *metav1.LabelSelector {
				return metav1.SetAsLabelSelector(r.Spec.Selector)
			},
		},
		Columns: workload.ReplicaColumns,
		Row: func(r *corev1.ReplicationController) []any {
			var names, images string
			if r.Spec.Template != nil {
				names, images = columns.ContainerCells(r.Spec.Template.Spec.Containers)
			}
			return []any{int64(*r.Spec.Replicas), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), names,
				images, columns.LabelCell(r.Spec.Selector)}
		},
		Fields: func(r *corev1.ReplicationController) fields.Set {
			return fields.Set{"status.replicas": fieldrules.Decimal(r.Status.Replicas)}
		},
	}
}

// defaultReplicationController sets the replicas, and derives the labels and the selector from the
// template.
//
//upstream:pkg/apis/core/v1.SetDefaults_ReplicationController
func defaultReplicationController(r *corev1.ReplicationController) {
	fieldrules.DefaultPointer(&r.Spec.Replicas, workload.DefaultReplicas)
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
	podspec.SetDefaults(&t.Spec)
}

// validateReplicationController checks the spec of a ReplicationController.
//
//upstream:pkg/apis/core/validation.ValidateReplicationControllerSpec
//upstream:pkg/apis/core/validation.ValidateNonEmptySelector
//upstream:pkg/apis/core/validation.ValidatePodTemplateSpecForRC
func validateReplicationController(r *corev1.ReplicationController, old *corev1.PodTemplateSpec) field.ErrorList {
	errs := fieldrules.OptionalNonNegative(r.Spec.Replicas, &fieldrules.Spec, "replicas")
	errs = append(errs, fieldrules.NonNegative(r.Spec.MinReadySeconds, &fieldrules.Spec, "minReadySeconds")...)
	if len(r.Spec.Selector) == 0 {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("selector"), ""))
	}
	if r.Spec.Template == nil {
		return append(errs, field.Required(fieldrules.Spec.ChildField("template"), ""))
	}
	for _, k := range fieldrules.SortedKeys(r.Spec.Selector) {
		if v, ok := r.Spec.Template.Labels[k]; !ok || v != r.Spec.Selector[k] {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("template").Child("metadata", "labels"),
				r.Spec.Template.Labels, "`selector` does not match template `labels`"))
			break
		}
	}
	template := check.Object(&errs).Child("spec").Child("template")
	podspec.ValidateTemplate(template, r.Spec.Template, old)
	workload.RestartsAlways(template, r.Spec.Template, "ReplicationController")
	return errs
}

// controllerWarnings returns the warnings for a ReplicationController. An update is warned about the old template.
//
//upstream:pkg/registry/core/replicationcontroller.rcStrategy.WarningsOnCreate
//upstream:pkg/registry/core/replicationcontroller.rcStrategy.WarningsOnUpdate
func controllerWarnings(r, old *corev1.ReplicationController) []string {
	return workload.Warnings(r, old, func() []string {
		t := r.Spec.Template
		if old != nil {
			t = old.Spec.Template
		}
		if t == nil {
			return nil
		}
		return workload.TemplateWarnings(t)
	})
}
