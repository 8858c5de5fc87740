// Package apps describes the kinds of the apps API group.
package apps

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
	"flyball.dev/apiserver/kinds/workload"
)

// Deployments describes the kind Deployment.
//
//upstream:pkg/registry/apps/deployment.deploymentStrategy
//upstream:pkg/registry/apps/deployment.deploymentStatusStrategy
//upstream:pkg/printers/internalversion.printDeployment
//upstream:pkg/registry/apps/deployment/storage.REST.ShortNames
//upstream:pkg/registry/apps/deployment/storage.REST.Categories
func Deployments() kinds.Kind {
	return kinds.Of[*appsv1.Deployment]{
		Type: &appsv1.Deployment{}, List: &appsv1.DeploymentList{},
		Plural: "deployments", ShortNames: []string{"deploy"}, Categories: []string{"all"},
		Name:    fieldrules.NameIsSubdomain,
		Default: defaultDeployment,
		Prepare: func(_ context.Context, d, old *appsv1.Deployment) {
			if old != nil && workload.AnnotationsChanged(d, old) {
				d.Generation = old.Generation + 1
			}
		},
		ValidateCreate: func(d *appsv1.Deployment) field.ErrorList { return validateDeployment(d, nil) },
		ValidateUpdate: validateDeployment,
		Warnings: func(d, old *appsv1.Deployment) []string {
			return workload.Warnings(d, old, func() []string { return workload.TemplateWarnings(&d.Spec.Template) })
		},
		Status:         true,
		PrepareStatus:  func(_ context.Context, d, old *appsv1.Deployment) { d.Labels = old.Labels },
		StatusReset:    []string{"metadata.labels"},
		ValidateStatus: validateDeploymentStatus,
		Generation:     true,
		Scale: &kinds.ScaleOf[*appsv1.Deployment]{
			Replicas:       func(d *appsv1.Deployment) int32 { return *d.Spec.Replicas },
			SetReplicas:    func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n },
			StatusReplicas: func(d *appsv1.Deployment) int32 { return d.Status.Replicas },
			Selector:       func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector },
		},
		Columns: slices.Concat([]metav1.TableColumnDefinition{
			columns.Column("Ready", "string", "The number of ready pods, and the desired number."),
			columns.Column("Up-to-date", "string", appsv1.DeploymentStatus{}.SwaggerDoc()["updatedReplicas"]),
			columns.Column("Available", "string", appsv1.DeploymentStatus{}.SwaggerDoc()["availableReplicas"]),
		}, workload.WideContainers),
		Row: func(d *appsv1.Deployment) []any {
			s := d.Status
			cells := append([]any{fmt.Sprintf("%d/%d", s.ReadyReplicas, *d.Spec.Replicas), int64(s.UpdatedReplicas),
				int64(s.AvailableReplicas)}, workload.WideContainerCells(&d.Spec.Template, d.Spec.Selector)...)
			cells[len(cells)-1] = selectorCell(d.Spec.Selector)
			return cells
		},
	}
}

// selectorCell formats the selector of a deployment; the cells of other workloads differ where it is empty or invalid.
//
//upstream:pkg/printers/internalversion.printDeployment
func selectorCell(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return selector.String()
}

//upstream:pkg/apis/apps/v1.SetDefaults_Deployment
func defaultDeployment(d *appsv1.Deployment) {
	s := &d.Spec
	fieldrules.DefaultPointer(&s.Replicas, workload.DefaultReplicas)
	fieldrules.DefaultPointer(&s.RevisionHistoryLimit, workload.DefaultHistory)
	fieldrules.DefaultPointer(&s.ProgressDeadlineSeconds, workload.DefaultProgressDeadline)
	fieldrules.DefaultValue(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if s.Strategy.RollingUpdate == nil {
			s.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		fieldrules.DefaultPointer(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		fieldrules.DefaultPointer(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	if r := s.Strategy.RollingUpdate; r != nil { // in kube-apiserver's internal version neither is a pointer, so an absent value is 0
		fieldrules.DefaultPointer(&r.MaxUnavailable, intstr.FromInt32(0))
		fieldrules.DefaultPointer(&r.MaxSurge, intstr.FromInt32(0))
	}
	podspec.SetDefaults(&s.Template.Spec)
}

// validateDeployment checks a Deployment. The old one is nil on create.
//
//upstream:pkg/apis/apps/validation.ValidateDeploymentSpec
//upstream:pkg/apis/apps/validation.ValidateDeploymentUpdate
func validateDeployment(d, old *appsv1.Deployment) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &d.Spec
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.Spec.Template
	}
	check.NonNegative(spec.Child("replicas"), s.Replicas)
	workload.Template(spec, s.Selector, &s.Template, was)
	deploymentStrategy(spec.Child("strategy"), &s.Strategy)
	check.NonNegative(spec.Child("minReadySeconds"), &s.MinReadySeconds)
	check.NonNegative(spec.Child("revisionHistoryLimit"), s.RevisionHistoryLimit)
	check.NonNegative(spec.Child("progressDeadlineSeconds"), s.ProgressDeadlineSeconds)
	if deadline := s.ProgressDeadlineSeconds; deadline != nil && *deadline <= s.MinReadySeconds {
		spec.Child("progressDeadlineSeconds").Invalid(*deadline, "must be greater than minReadySeconds")
	}
	if old != nil {
		check.Immutable(spec.Child("selector"), s.Selector, old.Spec.Selector)
	}
	return errs
}

//upstream:pkg/apis/apps/validation.ValidateDeploymentStrategy
func deploymentStrategy(at check.Field, s *appsv1.DeploymentStrategy) {
	rolling := at.Child("rollingUpdate")
	switch {
	case s.Type == appsv1.RecreateDeploymentStrategyType:
		check.Forbid(rolling, s.RollingUpdate != nil, "may not be specified when strategy `type` is 'Recreate'")
	case s.Type != appsv1.RollingUpdateDeploymentStrategyType:
		at.NotSupported(fieldrules.Internal(*s), "Recreate", "RollingUpdate")
	case s.RollingUpdate == nil:
		rolling.Required("this should be defaulted and never be nil")
	default:
		rollingUpdate(rolling, s.RollingUpdate)
	}
}

// rollingUpdate checks the amounts of a rolling update, and that they are not both zero.
//
//upstream:pkg/apis/apps/validation.ValidateRollingUpdateDeployment
func rollingUpdate(at check.Field, r *appsv1.RollingUpdateDeployment) {
	unavailable := at.Child("maxUnavailable")
	check.IntOrPercent(unavailable, r.MaxUnavailable)
	check.IntOrPercent(at.Child("maxSurge"), r.MaxSurge)
	if fieldrules.IsZero(r.MaxUnavailable) && fieldrules.IsZero(r.MaxSurge) {
		var value intstr.IntOrString
		if r.MaxUnavailable != nil {
			value = *r.MaxUnavailable
		}
		unavailable.Invalid(value, "may not be 0 when `maxSurge` is 0")
	}
	check.AtMost100Percent(unavailable, r.MaxUnavailable)
}

//upstream:pkg/apis/apps/validation.ValidateDeploymentStatus
//upstream:pkg/apis/apps/validation.ValidateDeploymentStatusUpdate
func validateDeploymentStatus(d, old *appsv1.Deployment) (errs field.ErrorList) {
	status, s := check.Object(&errs).Child("status"), &d.Status
	check.NonNegative(status.Child("observedGeneration"), &s.ObservedGeneration)
	workload.Counts(status, map[string]int32{
		"replicas": s.Replicas, "updatedReplicas": s.UpdatedReplicas, "readyReplicas": s.ReadyReplicas,
		"availableReplicas": s.AvailableReplicas, "unavailableReplicas": s.UnavailableReplicas,
	})
	check.NonNegative(status.Child("terminatingReplicas"), s.TerminatingReplicas)
	workload.NotMoreThan(status.Child("updatedReplicas"), s.UpdatedReplicas, s.Replicas, "status.replicas")
	workload.NotMoreThan(status.Child("readyReplicas"), s.ReadyReplicas, s.Replicas, "status.replicas")
	workload.NotMoreThan(status.Child("availableReplicas"), s.AvailableReplicas, s.Replicas, "status.replicas")
	workload.NotMoreThan(status.Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
	workload.NotBackwards(status.Child("collisionCount"), s.CollisionCount, old.Status.CollisionCount)
	return errs
}
