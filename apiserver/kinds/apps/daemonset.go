package apps

import (
	"context"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
	"flyball.dev/apiserver/kinds/workload"
)

// DaemonSets describes the kind DaemonSet.
//
//upstream:pkg/registry/apps/daemonset.daemonSetStrategy
//upstream:pkg/registry/apps/daemonset.daemonSetStatusStrategy
//upstream:pkg/printers/internalversion.printDaemonSet
//upstream:pkg/registry/apps/daemonset/storage.REST.ShortNames
//upstream:pkg/registry/apps/daemonset/storage.REST.Categories
func DaemonSets() kinds.Kind {
	return kinds.Of[*appsv1.DaemonSet]{
		Type: &appsv1.DaemonSet{}, List: &appsv1.DaemonSetList{},
		Plural: "daemonsets", ShortNames: []string{"ds"}, Categories: []string{"all"},
		Name:           fieldrules.NameIsSubdomain,
		Default:        defaultDaemonSet,
		Prepare:        prepareDaemonSet,
		ValidateCreate: func(d *appsv1.DaemonSet) field.ErrorList { return validateDaemonSet(d, nil) },
		ValidateUpdate: validateDaemonSet,
		Warnings:       daemonSetWarnings,
		Status:         true,
		PrepareStatus: func(_ context.Context, d, old *appsv1.DaemonSet) {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedTemplateGeneration, old.Annotations[appsv1.DeprecatedTemplateGeneration])
		},
		ValidateStatus: validateDaemonSetStatus,
		Generation:     true,
		Columns: slices.Concat([]metav1.TableColumnDefinition{
			columns.Column("Desired", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["desiredNumberScheduled"]),
			columns.Column("Current", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["currentNumberScheduled"]),
			columns.Column("Ready", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["numberReady"]),
			columns.Column("Up-to-date", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["updatedNumberScheduled"]),
			columns.Column("Available", "integer", appsv1.DaemonSetStatus{}.SwaggerDoc()["numberAvailable"]),
			columns.Column("Node Selector", "string", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]),
		}, workload.WideContainers),
		Row: func(d *appsv1.DaemonSet) []any {
			s := d.Status
			return append([]any{int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled),
				int64(s.NumberReady), int64(s.UpdatedNumberScheduled),
				int64(s.NumberAvailable), columns.LabelCell(d.Spec.Template.Spec.NodeSelector)},
				workload.WideContainerCells(&d.Spec.Template, d.Spec.Selector)...)
		},
	}
}

// daemonSetWarnings returns the warnings for a template that is new or changed.
//
//upstream:pkg/registry/apps/daemonset.daemonSetStrategy.WarningsOnCreate
//upstream:pkg/registry/apps/daemonset.daemonSetStrategy.WarningsOnUpdate
func daemonSetWarnings(d, old *appsv1.DaemonSet) []string {
	if old != nil && d.Annotations[appsv1.DeprecatedTemplateGeneration] == old.Annotations[appsv1.DeprecatedTemplateGeneration] {
		return nil
	}
	return workload.TemplateWarnings(&d.Spec.Template)
}

// defaultDaemonSet sets the defaults of a DaemonSet. The annotation for the template's generation is a default too,
// so that the manager of the request owns it.
//
//upstream:pkg/apis/apps/v1.SetDefaults_DaemonSet
//upstream:pkg/apis/apps/v1.Convert_apps_DaemonSet_To_v1_DaemonSet
func defaultDaemonSet(d *appsv1.DaemonSet) {
	s := &d.Spec
	if _, ok := d.Annotations[appsv1.DeprecatedTemplateGeneration]; !ok {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedTemplateGeneration, "0")
	}
	fieldrules.DefaultPointer(&s.RevisionHistoryLimit, workload.DefaultHistory)
	fieldrules.DefaultValue(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if s.UpdateStrategy.RollingUpdate == nil {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		fieldrules.DefaultPointer(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil { // neither is optional in kube-apiserver's internal version
		fieldrules.DefaultPointer(&r.MaxUnavailable, intstr.FromInt32(0))
		fieldrules.DefaultPointer(&r.MaxSurge, intstr.FromInt32(0))
	}
	podspec.SetDefaults(&s.Template.Spec)
}

// prepareDaemonSet counts the generations of the template in an annotation: in apps/v1 it replaces the field
// spec.templateGeneration.
//
//upstream:pkg/registry/apps/daemonset.daemonSetStrategy.PrepareForCreate
//upstream:pkg/registry/apps/daemonset.daemonSetStrategy.PrepareForUpdate
func prepareDaemonSet(_ context.Context, d, old *appsv1.DaemonSet) {
	n := int64(1)
	if old != nil {
		n, _ = strconv.ParseInt(old.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
		if !equality.Semantic(&d.Spec.Template, &old.Spec.Template) {
			n++
		}
	}
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = fieldrules.Decimal(n)
}

// validateDaemonSet checks a DaemonSet. The old one is nil on create.
//
//upstream:pkg/apis/apps/validation.ValidateDaemonSetSpec
func validateDaemonSet(d, old *appsv1.DaemonSet) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &d.Spec
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.Spec.Template
	}
	if s.Selector != nil {
		workload.NotEmpty(spec.Child("selector"), s.Selector, "daemonset")
	}
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil {
		workload.Matches(spec, selector, &s.Template)
	}
	template := spec.Child("template")
	podspec.ValidateTemplate(template, &s.Template, was)
	workload.RestartsAlways(template, &s.Template, "DaemonSet")
	check.NonNegative(spec.Child("minReadySeconds"), &s.MinReadySeconds)
	check.NonNegative(spec.Child("revisionHistoryLimit"), s.RevisionHistoryLimit)
	daemonStrategy(spec.Child("updateStrategy"), &s.UpdateStrategy)
	if old != nil {
		check.Immutable(spec.Child("selector"), s.Selector, old.Spec.Selector)
	}
	return errs
}

//upstream:pkg/apis/apps/validation.ValidateDaemonSetUpdateStrategy
//upstream:pkg/apis/apps/validation.ValidateRollingUpdateDaemonSet
func daemonStrategy(at check.Field, s *appsv1.DaemonSetUpdateStrategy) {
	r, rolling := s.RollingUpdate, at.Child("rollingUpdate")
	switch {
	case s.Type == appsv1.OnDeleteDaemonSetStrategyType:
		return
	case s.Type != appsv1.RollingUpdateDaemonSetStrategyType:
		at.NotSupported(fieldrules.Internal(*s), "RollingUpdate", "OnDelete")
		return
	case r == nil:
		rolling.Required("")
		return
	}
	unavailable, surge := rolling.Child("maxUnavailable"), rolling.Child("maxSurge")
	check.IntOrPercent(unavailable, r.MaxUnavailable)
	check.IntOrPercent(surge, r.MaxSurge)
	check.AtMost100Percent(unavailable, r.MaxUnavailable)
	check.AtMost100Percent(surge, r.MaxSurge)
	switch some, more := !fieldrules.IsZero(r.MaxUnavailable), !fieldrules.IsZero(r.MaxSurge); {
	case some && more:
		surge.Invalid(*r.MaxSurge, "may not be set when maxUnavailable is non-zero")
	case !some && !more:
		unavailable.Required("cannot be 0 when maxSurge is 0")
	}
}

//upstream:pkg/apis/apps/validation.validateDaemonSetStatus
//upstream:pkg/apis/apps/validation.ValidateDaemonSetStatusUpdate
func validateDaemonSetStatus(d, old *appsv1.DaemonSet) (errs field.ErrorList) {
	status, s := check.Object(&errs).Child("status"), &d.Status
	workload.Counts(status, map[string]int32{
		"currentNumberScheduled": s.CurrentNumberScheduled, "numberMisscheduled": s.NumberMisscheduled,
		"desiredNumberScheduled": s.DesiredNumberScheduled, "numberReady": s.NumberReady,
		"updatedNumberScheduled": s.UpdatedNumberScheduled,
		"numberAvailable":        s.NumberAvailable, "numberUnavailable": s.NumberUnavailable,
	})
	check.NonNegative(status.Child("observedGeneration"), &s.ObservedGeneration)
	workload.NotBackwards(status.Child("collisionCount"), s.CollisionCount, old.Status.CollisionCount)
	return errs
}

// ownerCell returns the cell for the controller of an object.
//
//upstream:pkg/printers/internalversion.formatResourceName
func ownerCell(obj metav1.Object) string {
	owner := metav1.GetControllerOf(obj)
	if owner == nil {
		return columns.None
	}
	gk := schema.FromAPIVersionAndKind(owner.APIVersion, strings.ToLower(owner.Kind)).GroupKind()
	if gk.Empty() {
		return owner.Name
	}
	return gk.String() + "/" + owner.Name
}
