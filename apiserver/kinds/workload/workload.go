// Package workload has what the kinds with a pod template share: checks of selectors, templates and
// status, and columns.
package workload

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// The rules of all kinds with a pod template.

// Template checks the selector and the template of the kinds that deployments are made of. A template without a valid
// selector is not checked. The old template is nil on create.
//
//upstream:pkg/apis/apps/validation.ValidatePodTemplateSpecForReplicaSet
func Template(s *metav1.LabelSelector, t, old *corev1.PodTemplateSpec) field.ErrorList {
	errs, ok := Selects(s, t, "deployment")
	if !ok {
		return errs
	}
	podspec.ValidateTemplate(check.Object(&errs).Child("spec").Child("template"), t, old)
	return append(errs, RestartsAlways(t, "ReplicaSet")...)
}

// Selects checks a selector, and that it matches the labels of the template. It reports whether the selector is one.
func Selects(s *metav1.LabelSelector, t *corev1.PodTemplateSpec, kind string) (errs field.ErrorList, ok bool) {
	if s == nil {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("selector"), ""))
	} else {
		errs = append(errs, fieldrules.LabelSelector(s, &fieldrules.Spec, "selector")...)
		if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("selector"), *s, "empty selector is invalid for "+kind))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		message := "invalid label selector"
		if kind == "statefulset" {
			message = "" // as kube-apiserver's
		}
		return append(errs, field.Invalid(fieldrules.Spec.ChildField("selector"), *s, message)), false
	}
	return append(errs, Matches(selector, t)...), true
}

// Matches checks that a selector matches the labels of the template.
func Matches(s labels.Selector, t *corev1.PodTemplateSpec) field.ErrorList {
	if s.Empty() || s.Matches(labels.Set(t.Labels)) {
		return nil
	}
	return field.ErrorList{field.Invalid(fieldrules.Spec.ChildField("template").Child("metadata", "labels"),
		t.Labels, "`selector` does not match template `labels`")}
}

// RestartsAlways checks that the restart policy of a template is Always.
func RestartsAlways(t *corev1.PodTemplateSpec, owner string) field.ErrorList {
	var errs field.ErrorList
	at := func() *field.Path { return fieldrules.Spec.ChildField("template").Child("spec") }
	if p := t.Spec.RestartPolicy; p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at().Child("restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(at().Child("activeDeadlineSeconds"),
			"activeDeadlineSeconds in "+owner+" is not Supported"))
	}
	return errs
}

// SameSelector checks that an update does not change the selector.
func SameSelector(now, was *metav1.LabelSelector) field.ErrorList {
	if equality.Semantic(now, was) {
		return nil
	}
	return fieldrules.Immutable(now, was, &fieldrules.Spec, "selector")
}

// Counts checks that the numbers of pods in a status are not negative.
func Counts(of map[string]int32) field.ErrorList {
	var errs field.ErrorList
	for _, name := range fieldrules.SortedKeys(of) {
		errs = append(errs, fieldrules.NonNegative(of[name], &fieldrules.Status, name)...)
	}
	return errs
}

// NotMoreThan checks that one number of pods is not greater than another.
func NotMoreThan(some int32, name string, all int32, than string) field.ErrorList {
	if some <= all {
		return nil
	}
	return field.ErrorList{field.Invalid(fieldrules.Status.ChildField(name), some, "cannot be greater than "+than)}
}

// NotBackwards checks that a number does not decrease.
func NotBackwards(now, was *int32, name string) field.ErrorList {
	errs := fieldrules.OptionalNonNegative(now, &fieldrules.Status, name)
	if was == nil {
		return errs
	}
	if now == nil || *now < *was {
		var value int32
		if now != nil {
			value = *now
		}
		errs = append(errs, field.Invalid(fieldrules.Status.ChildField(name), value, "cannot be decremented"))
	}
	return errs
}

// AnnotationsChanged reports whether an update changes annotations, which is a new generation of
// some kinds.
func AnnotationsChanged(now, was metav1.Object) bool {
	return !maps.Equal(now.GetAnnotations(), was.GetAnnotations())
}

// TemplateWarnings returns the warnings for a template.
func TemplateWarnings(t *corev1.PodTemplateSpec) []string {
	return podspec.Warnings(&t.ObjectMeta, &t.Spec, fieldrules.Spec.ChildField("template"))
}

// WideContainers are the wide columns for the containers and the selector of workloads.
var WideContainers = []metav1.TableColumnDefinition{
	columns.Wide("Containers", "string", "The names of the containers in the template."),
	columns.Wide("Images", "string", "The images of the containers in the template."),
	columns.Wide("Selector", "string", "Which pods belong here, by their labels."),
}

// WideContainerCells are the cells of WideContainers.
func WideContainerCells(t *corev1.PodTemplateSpec, s *metav1.LabelSelector) []any {
	names, images := columns.ContainerCells(t.Spec.Containers)
	return []any{names, images, columns.SelectorCell(s)}
}

// ReplicaColumns are the columns of the kinds with replicas.
var ReplicaColumns = slices.Concat([]metav1.TableColumnDefinition{
	columns.Column("Desired", "integer", appsv1.ReplicaSetSpec{}.SwaggerDoc()["replicas"]),
	columns.Column("Current", "integer", appsv1.ReplicaSetStatus{}.SwaggerDoc()["replicas"]),
	columns.Column("Ready", "integer", appsv1.ReplicaSetStatus{}.SwaggerDoc()["readyReplicas"]),
}, WideContainers)

// ReplicaStatus checks the status of the kinds with replicas.
func ReplicaStatus(s appsv1.ReplicaSetStatus) field.ErrorList {
	errs := Counts(map[string]int32{"replicas": s.Replicas, "fullyLabeledReplicas": s.FullyLabeledReplicas,
		"readyReplicas": s.ReadyReplicas, "availableReplicas": s.AvailableReplicas})
	errs = append(errs, fieldrules.NonNegative(s.ObservedGeneration, &fieldrules.Status, "observedGeneration")...)
	errs = append(errs, fieldrules.OptionalNonNegative(s.TerminatingReplicas, &fieldrules.Status,
		"terminatingReplicas")...)
	errs = append(errs, NotMoreThan(s.FullyLabeledReplicas, "fullyLabeledReplicas", s.Replicas, "status.replicas")...)
	errs = append(errs, NotMoreThan(s.ReadyReplicas, "readyReplicas", s.Replicas, "status.replicas")...)
	errs = append(errs, NotMoreThan(s.AvailableReplicas, "availableReplicas", s.Replicas, "status.replicas")...)
	return append(errs, NotMoreThan(s.AvailableReplicas, "availableReplicas", s.ReadyReplicas, "readyReplicas")...)
}

// Defaults of workloads.
const (
	DefaultReplicas         int32 = 1
	DefaultHistory          int32 = 10
	DefaultProgressDeadline int32 = 600
)
