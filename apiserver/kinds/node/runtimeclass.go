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
//upstream:pkg/apis/node/validation.validateScheduling
//upstream:pkg/apis/node/validation.validateTolerations
//upstream:pkg/printers/internalversion.printRuntimeClass
func RuntimeClasses() kinds.Kind {
	return kinds.Of[*nodev1.RuntimeClass]{
		Type: &nodev1.RuntimeClass{}, List: &nodev1.RuntimeClassList{},
		Plural: "runtimeclasses", Cluster: true, NoUnconditionalUpdate: true, CreateOnUpdate: true,
		AnyFinalizers: true,
		Name:          fieldrules.NameIsSubdomain,
		Validate: func(r *nodev1.RuntimeClass) field.ErrorList {
			var errs field.ErrorList
			if r.Overhead != nil {
				check.Resources(check.Object(&errs).Child("overhead"), &corev1.ResourceRequirements{Limits: r.Overhead.PodFixed}, false, false)
			}
			if r.Scheduling != nil {
				at := fieldrules.Root.Child("scheduling")
				errs = append(errs, fieldrules.LabelMap(r.Scheduling.NodeSelector, &at, "nodeSelector")...)
				podspec.Tolerations(check.Object(&errs).Child("scheduling").Child("tolerations"), r.Scheduling.Tolerations)
				errs = append(errs, distinct(r.Scheduling.Tolerations, at.Child("tolerations"))...)
			}
			return errs
		},
		ValidateCreate: func(r *nodev1.RuntimeClass) field.ErrorList {
			if r.Handler == "" {
				return fieldrules.Required(r.Handler, &fieldrules.Root, "handler")
			}
			return fieldrules.Invalid(content.IsDNS1123Label(r.Handler), r.Handler, &fieldrules.Root, "handler")
		},
		ValidateUpdate: func(r, old *nodev1.RuntimeClass) field.ErrorList {
			errs := fieldrules.DNSLabel(r.Handler, &fieldrules.Root, "handler")
			return append(errs, fieldrules.ImmutableUnquoted(r.Handler, old.Handler, &fieldrules.Root, "handler")...)
		},
		Warnings: func(r, _ *nodev1.RuntimeClass) []string { return runtimeClassWarnings(r) },
		Columns: []metav1.TableColumnDefinition{columns.Column("Handler", "string",
			nodev1.RuntimeClass{}.SwaggerDoc()["handler"])},
		Row: func(r *nodev1.RuntimeClass) []any { return []any{r.Handler} },
	}
}

// distinct checks that no toleration occurs twice, whatever its seconds are.
//
//upstream:pkg/apis/node/validation.validateTolerations
func distinct(tolerations []corev1.Toleration, list fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	var seen fieldrules.Seen[corev1.Toleration]
	for i, t := range tolerations {
		key := t
		key.TolerationSeconds = nil
		if at := list.Index(i); !seen.Add(key) {
			errs = append(errs, field.Duplicate(at.Field(), fieldrules.Internal(t)))
		}
	}
	return errs
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
