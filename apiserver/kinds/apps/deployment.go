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
		ValidateUpdate: func(d, old *appsv1.Deployment) field.ErrorList {
			return append(validateDeployment(d, &old.Spec.Template), workload.SameSelector(d.Spec.Selector, old.Spec.Selector)...)
		},
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
	if r := s.Strategy.RollingUpdate; r != nil { // neither is optional in kube-apiserver's internal version
		fieldrules.DefaultPointer(&r.MaxUnavailable, intstr.FromInt32(0))
		fieldrules.DefaultPointer(&r.MaxSurge, intstr.FromInt32(0))
	}
	podspec.SetDefaults(&s.Template.Spec)
}

//upstream:pkg/apis/apps/validation.ValidateDeploymentSpec
//upstream:pkg/apis/apps/validation.ValidateDeploymentUpdate
func validateDeployment(d *appsv1.Deployment, old *corev1.PodTemplateSpec) field.ErrorList {
	s := &d.Spec
	errs := fieldrules.OptionalNonNegative(s.Replicas, &fieldrules.Spec, "replicas")
	errs = append(errs, workload.Template(s.Selector, &s.Template, old)...)
	errs = append(errs, deploymentStrategy(&s.Strategy)...)
	errs = append(errs, fieldrules.NonNegative(s.MinReadySeconds, &fieldrules.Spec, "minReadySeconds")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.RevisionHistoryLimit, &fieldrules.Spec,
		"revisionHistoryLimit")...)
	if deadline := s.ProgressDeadlineSeconds; deadline != nil {
		errs = append(errs, fieldrules.NonNegative(*deadline, &fieldrules.Spec, "progressDeadlineSeconds")...)
		if *deadline <= s.MinReadySeconds {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("progressDeadlineSeconds"), *deadline,
				"must be greater than minReadySeconds"))
		}
	}
	return errs
}

//upstream:pkg/apis/apps/validation.ValidateDeploymentStrategy
func deploymentStrategy(s *appsv1.DeploymentStrategy) field.ErrorList {
	fldPath := fieldrules.Spec.Child("strategy")
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(fldPath.ChildField("rollingUpdate"),
				"may not be specified when strategy `type` is '"+string(s.Type)+"'")}
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(fldPath.ChildField("rollingUpdate"),
				"this should be defaulted and never be nil")}
		}
		at := fldPath.Child("rollingUpdate")
		return rollingUpdate(s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge, &at)
	default:
		return field.ErrorList{field.NotSupported(fldPath.Field(), fieldrules.Internal(*s),
			[]appsv1.DeploymentStrategyType{appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType})}
	}
	return nil
}

// rollingUpdate checks that a rolling update can progress: maxUnavailable and maxSurge are not both
// zero.
//
//upstream:pkg/apis/apps/validation.ValidateRollingUpdateDeployment
func rollingUpdate(maxUnavailable, maxSurge *intstr.IntOrString, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.IntOrPercent(maxUnavailable, fldPath, "maxUnavailable")
	errs = append(errs, fieldrules.IntOrPercent(maxSurge, fldPath, "maxSurge")...)
	if fieldrules.IsZero(maxUnavailable) && fieldrules.IsZero(maxSurge) {
		var value intstr.IntOrString
		if maxUnavailable != nil {
			value = *maxUnavailable
		}
		errs = append(errs, field.Invalid(fldPath.ChildField("maxUnavailable"), value, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, fieldrules.AtMost100Percent(maxUnavailable, fldPath, "maxUnavailable")...)
}

//upstream:pkg/apis/apps/validation.ValidateDeploymentStatus
//upstream:pkg/apis/apps/validation.ValidateDeploymentStatusUpdate
func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	s := &d.Status
	errs := fieldrules.NonNegative(s.ObservedGeneration, &fieldrules.Status, "observedGeneration")
	errs = append(errs, workload.Counts(map[string]int32{
		"replicas": s.Replicas, "updatedReplicas": s.UpdatedReplicas, "readyReplicas": s.ReadyReplicas,
		"availableReplicas": s.AvailableReplicas, "unavailableReplicas": s.UnavailableReplicas,
	})...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.TerminatingReplicas, &fieldrules.Status,
		"terminatingReplicas")...)
	errs = append(errs, workload.NotMoreThan(s.UpdatedReplicas, "updatedReplicas", s.Replicas, "status.replicas")...)
	errs = append(errs, workload.NotMoreThan(s.ReadyReplicas, "readyReplicas", s.Replicas, "status.replicas")...)
	errs = append(errs, workload.NotMoreThan(s.AvailableReplicas, "availableReplicas", s.Replicas, "status.replicas")...)
	errs = append(errs, workload.NotMoreThan(s.AvailableReplicas, "availableReplicas", s.ReadyReplicas,
		"readyReplicas")...)
	return append(errs, workload.NotBackwards(s.CollisionCount, old.Status.CollisionCount, "collisionCount")...)
}
