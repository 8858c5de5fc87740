package kinds

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// These are the rules that all kinds share which make pods from a template.

// selects checks a selector, and that it selects what the template makes.
func selects(s *metav1.LabelSelector, t *corev1.PodTemplateSpec, kind string) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(specAt.of("selector"), "")}
	}
	errs := labelSelector(s, &specAt, "selector")
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(specAt.of("selector"), *s, "empty selector is invalid for "+kind))
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		if len(errs) == 0 {
			errs = append(errs, field.Invalid(specAt.of("selector"), *s, "invalid label selector"))
		}
		return errs
	}
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(specAt.of("template").Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

// restartsAlways checks a template whose pods are to run for ever.
func restartsAlways(t *corev1.PodTemplateSpec, owner string) field.ErrorList {
	w := specAt.at("template")
	errs := podTemplate(t, &w)
	if p := t.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(w.of("spec").Child("restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(w.of("spec").Child("activeDeadlineSeconds"), "activeDeadlineSeconds in "+owner+" is not Supported"))
	}
	return errs
}

// sameSelector checks that an update leaves the selector as it was.
func sameSelector(now, was *metav1.LabelSelector) field.ErrorList {
	if apiequality.Semantic.DeepEqual(now, was) {
		return nil
	}
	return unchanged(now, was, &specAt, "selector")
}

// counts checks numbers of pods in a status.
func counts(of map[string]int32) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sorted(of) {
		errs = append(errs, nonNegative(of[name], &statusAt, name)...)
	}
	return errs
}

// notMoreThan checks that some of the pods are no more than others of them.
func notMoreThan(some int32, name string, all int32, than string) field.ErrorList {
	if some <= all {
		return nil
	}
	return field.ErrorList{field.Invalid(statusAt.of(name), some, "cannot be greater than "+than)}
}

// notBackwards checks a number that only rises.
func notBackwards(now, was *int32, name string) field.ErrorList {
	errs := nonNegativeIf(now, &statusAt, name)
	if was == nil {
		return errs
	}
	if now == nil || *now < *was {
		var value int32
		if now != nil {
			value = *now
		}
		errs = append(errs, field.Invalid(statusAt.of(name), value, "cannot be decremented"))
	}
	return errs
}

// annotated tells whether the annotations changed, which for some kinds is a new generation.
func annotated(now, was metav1.Object) bool {
	return !maps.Equal(now.GetAnnotations(), was.GetAnnotations())
}

// templateWarnings tells of what a template has that does not work any more.
func templateWarnings(t *corev1.PodTemplateSpec) []string {
	var warnings []string
	if len(t.Spec.Containers) > 0 && t.Spec.TerminationGracePeriodSeconds != nil && *t.Spec.TerminationGracePeriodSeconds < 0 {
		warnings = append(warnings, "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1")
	}
	for k := range t.Spec.NodeSelector {
		if strings.HasPrefix(k, "beta.kubernetes.io/") {
			warnings = append(warnings, "spec.template.spec.nodeSelector["+k+"]: deprecated since v1.14; use \""+strings.TrimPrefix(k, "beta.")+"\" instead")
		}
	}
	return warnings
}

// wideContainers are the columns of workloads which show what is in their template.
var wideContainers = []metav1.TableColumnDefinition{
	wide("Containers", "string", "The names of the containers in the template."),
	wide("Images", "string", "The images of the containers in the template."),
	wide("Selector", "string", "Which pods belong here, by their labels."),
}

func wideContainerCells(t *corev1.PodTemplateSpec, s *metav1.LabelSelector) []any {
	names, images := containerCells(t.Spec.Containers)
	return []any{names, images, selectorCell(s)}
}

var replicaColumns = slices.Concat([]metav1.TableColumnDefinition{
	column("Desired", "integer", appsv1.ReplicaSetSpec{}.SwaggerDoc()["replicas"]),
	column("Current", "integer", appsv1.ReplicaSetStatus{}.SwaggerDoc()["replicas"]),
	column("Ready", "integer", appsv1.ReplicaSetStatus{}.SwaggerDoc()["readyReplicas"]),
}, wideContainers)

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

// Defaults of workloads.
const (
	defaultReplicas         int32 = 1
	defaultHistory          int32 = 10
	defaultProgressDeadline int32 = 600
)
