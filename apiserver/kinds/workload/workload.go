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
func Template(spec check.Field, s *metav1.LabelSelector, t, old *corev1.PodTemplateSpec) {
	if !Selects(spec, s, t, "deployment") {
		return
	}
	template := spec.Child("template")
	podspec.ValidateTemplate(template, t, old)
	RestartsAlways(template, t, "ReplicaSet")
}

// Selects checks a selector, and that it matches the labels of the template. It reports whether the selector is one.
func Selects(spec check.Field, s *metav1.LabelSelector, t *corev1.PodTemplateSpec, kind string) bool {
	at := spec.Child("selector")
	if s == nil {
		at.Required("")
	} else {
		NotEmpty(at, s, kind)
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	switch {
	case err == nil:
		Matches(spec, selector, t)
	case kind == "statefulset":
		at.Invalid(*s, "") // as kube-apiserver's
	default:
		at.Invalid(*s, "invalid label selector")
	}
	return err == nil
}

// NotEmpty checks the operators, keys and values of a selector, and that there are some.
func NotEmpty(at check.Field, s *metav1.LabelSelector, kind string) {
	check.LabelSelector(at, s)
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		at.Invalid(*s, "empty selector is invalid for "+kind)
	}
}

// Matches checks that a selector matches the labels of the template.
func Matches(spec check.Field, s labels.Selector, t *corev1.PodTemplateSpec) {
	if !s.Empty() && !s.Matches(labels.Set(t.Labels)) {
		spec.Child("template").Child("metadata").Child("labels").Invalid(t.Labels, "`selector` does not match template `labels`")
	}
}

// RestartsAlways checks that the restart policy of a template is Always.
func RestartsAlways(template check.Field, t *corev1.PodTemplateSpec, owner string) {
	pod := template.Child("spec")
	check.Supported(pod.Child("restartPolicy"), t.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	if t.Spec.ActiveDeadlineSeconds != nil {
		pod.Child("activeDeadlineSeconds").Forbidden("activeDeadlineSeconds in " + owner + " is not Supported")
	}
}

// Counts checks that the numbers of pods in a status are not negative.
func Counts(status check.Field, of map[string]int32) {
	for _, name := range fieldrules.SortedKeys(of) {
		check.NonNegative(status.Child(name), new(of[name]))
	}
}

// NotMoreThan checks that one number of pods is not greater than another.
func NotMoreThan(at check.Field, some, all int32, than string) {
	if some > all {
		at.Invalid(some, "cannot be greater than "+than)
	}
}

// NotBackwards checks that a number does not decrease.
func NotBackwards(at check.Field, now, was *int32) {
	check.NonNegative(at, now)
	switch {
	case was == nil:
	case now == nil:
		at.Invalid(int32(0), "cannot be decremented")
	case *now < *was:
		at.Invalid(*now, "cannot be decremented")
	}
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
func ReplicaStatus(s appsv1.ReplicaSetStatus) (errs field.ErrorList) {
	status := check.Object(&errs).Child("status")
	Counts(status, map[string]int32{"replicas": s.Replicas, "fullyLabeledReplicas": s.FullyLabeledReplicas,
		"readyReplicas": s.ReadyReplicas, "availableReplicas": s.AvailableReplicas})
	check.NonNegative(status.Child("observedGeneration"), &s.ObservedGeneration)
	check.NonNegative(status.Child("terminatingReplicas"), s.TerminatingReplicas)
	NotMoreThan(status.Child("fullyLabeledReplicas"), s.FullyLabeledReplicas, s.Replicas, "status.replicas")
	NotMoreThan(status.Child("readyReplicas"), s.ReadyReplicas, s.Replicas, "status.replicas")
	NotMoreThan(status.Child("availableReplicas"), s.AvailableReplicas, s.Replicas, "status.replicas")
	NotMoreThan(status.Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
	return errs
}

// Defaults of workloads.
const (
	DefaultReplicas         int32 = 1
	DefaultHistory          int32 = 10
	DefaultProgressDeadline int32 = 600
)
