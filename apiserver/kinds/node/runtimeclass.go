// Package node describes the kinds of the node.k8s.io API group.
package node

import (
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// RuntimeClasses describes the kind RuntimeClass.
//
//upstream:pkg/registry/node/runtimeclass.strategy
//upstream:pkg/apis/node/validation.ValidateRuntimeClass
//upstream:pkg/apis/node/validation.ValidateRuntimeClassUpdate
//upstream:pkg/apis/node/validation.validateOverhead
//upstream:pkg/printers/internalversion.printRuntimeClass
func RuntimeClasses() kinds.Kind {
	return kinds.Of[*nodev1.RuntimeClass]{
		Type: &nodev1.RuntimeClass{}, List: &nodev1.RuntimeClassList{},
		Plural: "runtimeclasses", Cluster: true, NoUnconditionalUpdate: true, CreateOnUpdate: true,
		AnyFinalizers: true,
		Name:          fieldrules.NameIsSubdomain,
		Validate: func(r *nodev1.RuntimeClass) (errs field.ErrorList) {
			object := check.Object(&errs)
			if r.Overhead != nil {
				check.Resources(object.Child("overhead"), &corev1.ResourceRequirements{Limits: r.Overhead.PodFixed}, false, false)
			}
			check.Optional(object.Child("scheduling"), r.Scheduling, scheduling)
			return errs
		},
		ValidateCreate: func(r *nodev1.RuntimeClass) (errs field.ErrorList) {
			if at := check.Object(&errs).Child("handler"); r.Handler == "" {
				at.Required("")
			} else {
				check.Valid(at, r.Handler, content.IsDNS1123Label)
			}
			return errs
		},
		ValidateUpdate: func(r, old *nodev1.RuntimeClass) (errs field.ErrorList) {
			at := check.Object(&errs).Child("handler")
			check.DNSLabel(at, r.Handler)
			check.ImmutableWithoutValue(at, r.Handler, old.Handler)
			return errs
		},
		Warnings: func(r, _ *nodev1.RuntimeClass) []string { return runtimeClassWarnings(r) },
		Columns: []metav1.TableColumnDefinition{columns.Column("Handler", "string",
			nodev1.RuntimeClass{}.SwaggerDoc()["handler"])},
		Row: func(r *nodev1.RuntimeClass) []any { return []any{r.Handler} },
	}
}

//upstream:pkg/apis/node/validation.validateScheduling
func scheduling(at check.Field, s nodev1.Scheduling) {
	check.Labels(at.Child("nodeSelector"), s.NodeSelector)
	podspec.Tolerations(at.Child("tolerations"), s.Tolerations)
	distinct(at.Child("tolerations"), s.Tolerations)
}

// distinct checks that no toleration occurs twice, whatever its seconds are.
//
//upstream:pkg/apis/node/validation.validateTolerations
func distinct(list check.Field, tolerations []corev1.Toleration) {
	var seen fieldrules.Seen[corev1.Toleration]
	for i, t := range tolerations {
		key := t
		key.TolerationSeconds = nil
		if !seen.Add(key) {
			list.Index(i).Duplicate(fieldrules.Internal(t))
		}
	}
}

// runtimeClassWarnings warns about deprecated labels of nodes.
//
//upstream:pkg/api/node.GetWarningsForRuntimeClass
func runtimeClassWarnings(r *nodev1.RuntimeClass) []string {
	if r.Scheduling == nil {
		return nil
	}
	var warnings []string
	for _, key := range fieldrules.SortedKeys(r.Scheduling.NodeSelector) {
		if message, ok := podspec.DeprecatedNodeLabel(key); ok {
			warnings = append(warnings, "scheduling.nodeSelector: "+message)
		}
	}
	return warnings
}
