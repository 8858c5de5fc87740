package kinds

import (
	"context"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func daemonSets() Kind {
	return Of[*appsv1.DaemonSet]{
		Type: &appsv1.DaemonSet{}, List: &appsv1.DaemonSetList{},
		Plural: "daemonsets", ShortNames: []string{"ds"}, Categories: []string{"all"},
		Name:     subdomain,
		Default:  defaultDaemonSet,
		Prepare:  prepareDaemonSet,
		Validate: validateDaemonSet,
		ValidateUpdate: func(d, old *appsv1.DaemonSet) field.ErrorList {
			return sameSelector(d.Spec.Selector, old.Spec.Selector)
		},
		Warnings:       func(d, _ *appsv1.DaemonSet) []string { return templateWarnings(&d.Spec.Template) },
		Status:         true,
		ValidateStatus: validateDaemonSetStatus,
		Generation:     true,
		Columns: slices.Concat([]metav1.TableColumnDefinition{
			column("Desired", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["desiredNumberScheduled"]),
			column("Current", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["currentNumberScheduled"]),
			column("Ready", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["numberReady"]),
			column("Up-to-date", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["updatedNumberScheduled"]),
			column("Available", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["numberAvailable"]),
			column("Node Selector", "string", "The labels that a node must have to run the pod."),
		}, wideContainers),
		Row: func(d *appsv1.DaemonSet) []any {
			s := d.Status
			return append([]any{int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady), int64(s.UpdatedNumberScheduled),
				int64(s.NumberAvailable), labelCell(d.Spec.Template.Spec.NodeSelector)}, wideContainerCells(&d.Spec.Template, d.Spec.Selector)...)
		},
	}
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	s := &d.Spec
	orElse(&s.RevisionHistoryLimit, defaultHistory)
	orSet(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if s.UpdateStrategy.RollingUpdate == nil {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		orElse(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		orElse(&s.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	defaultPodSpec(&s.Template.Spec)
}

// prepareDaemonSet counts the versions of the template, in the annotation that has held the number
// since there was a field for it.
func prepareDaemonSet(_ context.Context, d, old *appsv1.DaemonSet) {
	n := int64(1)
	if old != nil {
		n, _ = strconv.ParseInt(old.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
		if !apiequality.Semantic.DeepEqual(d.Spec.Template, old.Spec.Template) {
			n++
		}
	}
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = decimal(n)
}

func validateDaemonSet(d *appsv1.DaemonSet) field.ErrorList {
	s := &d.Spec
	errs := selects(s.Selector, &s.Template, "daemonset")
	errs = append(errs, restartsAlways(&s.Template, "DaemonSet")...)
	errs = append(errs, nonNegative(s.MinReadySeconds, &specAt, "minReadySeconds")...)
	errs = append(errs, nonNegativeIf(s.RevisionHistoryLimit, &specAt, "revisionHistoryLimit")...)
	at := specAt.at("updateStrategy")
	switch s.UpdateStrategy.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
	case appsv1.RollingUpdateDaemonSetStrategyType:
		rolling := at.at("rollingUpdate")
		r := s.UpdateStrategy.RollingUpdate
		if r == nil {
			return append(errs, field.Required(rolling.path(), ""))
		}
		errs = append(errs, count(r.MaxUnavailable, &rolling, "maxUnavailable")...)
		errs = append(errs, count(r.MaxSurge, &rolling, "maxSurge")...)
		errs = append(errs, atMostAll(r.MaxUnavailable, &rolling, "maxUnavailable")...)
		errs = append(errs, atMostAll(r.MaxSurge, &rolling, "maxSurge")...)
		switch some, more := !isZero(r.MaxUnavailable), !isZero(r.MaxSurge); {
		case some && more:
			errs = append(errs, field.Invalid(rolling.of("maxSurge"), *r.MaxSurge, "may not be set when maxUnavailable is non-zero"))
		case !some && !more:
			errs = append(errs, field.Required(rolling.of("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
		}
	default:
		errs = append(errs, field.NotSupported(at.of("type"), s.UpdateStrategy.Type,
			[]appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType}))
	}
	return errs
}

func validateDaemonSetStatus(d, old *appsv1.DaemonSet) field.ErrorList {
	s := &d.Status
	errs := counts(map[string]int32{
		"currentNumberScheduled": s.CurrentNumberScheduled, "numberMisscheduled": s.NumberMisscheduled, "desiredNumberScheduled": s.DesiredNumberScheduled,
		"numberReady": s.NumberReady, "updatedNumberScheduled": s.UpdatedNumberScheduled, "numberAvailable": s.NumberAvailable, "numberUnavailable": s.NumberUnavailable,
	})
	errs = append(errs, nonNegative(s.ObservedGeneration, &statusAt, "observedGeneration")...)
	return append(errs, notBackwards(s.CollisionCount, old.Status.CollisionCount, "collisionCount")...)
}

// ownerCell names what controls an object.
func ownerCell(obj metav1.Object) string {
	owner := metav1.GetControllerOf(obj)
	if owner == nil {
		return none
	}
	gk := schema.FromAPIVersionAndKind(owner.APIVersion, strings.ToLower(owner.Kind)).GroupKind()
	return gk.String() + "/" + owner.Name
}
