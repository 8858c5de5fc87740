package kinds

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func deployments() Kind {
	return Of[*appsv1.Deployment]{
		Type: &appsv1.Deployment{}, List: &appsv1.DeploymentList{},
		Plural: "deployments", ShortNames: []string{"deploy"}, Categories: []string{"all"},
		Name:    subdomain,
		Default: defaultDeployment,
		Prepare: func(_ context.Context, d, old *appsv1.Deployment) {
			if old != nil && annotated(d, old) {
				d.Generation = old.Generation + 1
			}
		},
		Validate: validateDeployment,
		ValidateUpdate: func(d, old *appsv1.Deployment) field.ErrorList {
			return sameSelector(d.Spec.Selector, old.Spec.Selector)
		},
		Warnings:       func(d, _ *appsv1.Deployment) []string { return templateWarnings(&d.Spec.Template) },
		Status:         true,
		ValidateStatus: validateDeploymentStatus,
		Generation:     true,
		Scale: &ScaleOf[*appsv1.Deployment]{
			Replicas:       func(d *appsv1.Deployment) int32 { return *d.Spec.Replicas },
			SetReplicas:    func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n },
			StatusReplicas: func(d *appsv1.Deployment) int32 { return d.Status.Replicas },
			Selector:       func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector },
		},
		Columns: slices.Concat([]metav1.TableColumnDefinition{
			column("Ready", "string", "The pods that are ready, of all that are wanted."),
			column("Up-to-date", "string", appsv1.DeploymentStatus{}.SwaggerDoc()["updatedReplicas"]),
			column("Available", "string", appsv1.DeploymentStatus{}.SwaggerDoc()["availableReplicas"]),
		}, wideContainers),
		Row: func(d *appsv1.Deployment) []any {
			s := d.Status
			return append([]any{fmt.Sprintf("%d/%d", s.ReadyReplicas, *d.Spec.Replicas), int64(s.UpdatedReplicas), int64(s.AvailableReplicas)},
				wideContainerCells(&d.Spec.Template, d.Spec.Selector)...)
		},
	}
}

func defaultDeployment(d *appsv1.Deployment) {
	s := &d.Spec
	orElse(&s.Replicas, defaultReplicas)
	orElse(&s.RevisionHistoryLimit, defaultHistory)
	orElse(&s.ProgressDeadlineSeconds, defaultProgressDeadline)
	orSet(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if s.Strategy.RollingUpdate == nil {
			s.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		orElse(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		orElse(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	defaultPodSpec(&s.Template.Spec)
}

func validateDeployment(d *appsv1.Deployment) field.ErrorList {
	s := &d.Spec
	errs := nonNegativeIf(s.Replicas, &specAt, "replicas")
	errs = append(errs, selects(s.Selector, &s.Template, "deployment")...)
	errs = append(errs, restartsAlways(&s.Template, "ReplicaSet")...)
	errs = append(errs, deploymentStrategy(&s.Strategy)...)
	errs = append(errs, nonNegative(s.MinReadySeconds, &specAt, "minReadySeconds")...)
	errs = append(errs, nonNegativeIf(s.RevisionHistoryLimit, &specAt, "revisionHistoryLimit")...)
	if deadline := s.ProgressDeadlineSeconds; deadline != nil {
		errs = append(errs, nonNegative(*deadline, &specAt, "progressDeadlineSeconds")...)
		if *deadline <= s.MinReadySeconds {
			errs = append(errs, field.Invalid(specAt.of("progressDeadlineSeconds"), *deadline, "must be greater than minReadySeconds"))
		}
	}
	return errs
}

func deploymentStrategy(s *appsv1.DeploymentStrategy) field.ErrorList {
	w := specAt.at("strategy")
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(w.of("rollingUpdate"), "may not be specified when strategy `type` is '"+string(s.Type)+"'")}
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(w.of("rollingUpdate"), "this should be defaulted and never be nil")}
		}
		at := w.at("rollingUpdate")
		return rollingUpdate(s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge, &at)
	default:
		return field.ErrorList{field.NotSupported(w.of("type"), s.Type,
			[]appsv1.DeploymentStrategyType{appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType})}
	}
	return nil
}

// rollingUpdate checks that an update of all pods can go on: some may be missing, or some may be
// there too many.
func rollingUpdate(maxUnavailable, maxSurge *intstr.IntOrString, w *where) field.ErrorList {
	errs := count(maxUnavailable, w, "maxUnavailable")
	errs = append(errs, count(maxSurge, w, "maxSurge")...)
	if isZero(maxUnavailable) && isZero(maxSurge) {
		var value intstr.IntOrString
		if maxUnavailable != nil {
			value = *maxUnavailable
		}
		errs = append(errs, field.Invalid(w.of("maxUnavailable"), value, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, atMostAll(maxUnavailable, w, "maxUnavailable")...)
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	s := &d.Status
	errs := nonNegative(s.ObservedGeneration, &statusAt, "observedGeneration")
	errs = append(errs, counts(map[string]int32{
		"replicas": s.Replicas, "updatedReplicas": s.UpdatedReplicas, "readyReplicas": s.ReadyReplicas,
		"availableReplicas": s.AvailableReplicas, "unavailableReplicas": s.UnavailableReplicas,
	})...)
	errs = append(errs, nonNegativeIf(s.TerminatingReplicas, &statusAt, "terminatingReplicas")...)
	errs = append(errs, notMoreThan(s.UpdatedReplicas, "updatedReplicas", s.Replicas, "status.replicas")...)
	errs = append(errs, notMoreThan(s.ReadyReplicas, "readyReplicas", s.Replicas, "status.replicas")...)
	errs = append(errs, notMoreThan(s.AvailableReplicas, "availableReplicas", s.Replicas, "status.replicas")...)
	errs = append(errs, notMoreThan(s.AvailableReplicas, "availableReplicas", s.ReadyReplicas, "readyReplicas")...)
	return append(errs, notBackwards(s.CollisionCount, old.Status.CollisionCount, "collisionCount")...)
}
