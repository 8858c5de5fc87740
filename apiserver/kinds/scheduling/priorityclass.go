// Package scheduling describes the kinds of the scheduling.k8s.io API group.
package scheduling

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// maxUserPriority is the highest priority that is not reserved for system classes.
const (
	maxUserPriority      = int32(1_000_000_000)
	systemPriorityPrefix = "system-"
)

//upstream:pkg/apis/scheduling/v1.systemPriorityClasses
var systemPriorities = map[string]int32{"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}

// PriorityClasses describes the kind PriorityClass.
//
//upstream:pkg/registry/scheduling/priorityclass.priorityClassStrategy
//upstream:pkg/apis/scheduling/v1.SetDefaults_PriorityClass
//upstream:pkg/apis/scheduling/validation.ValidatePriorityClassUpdate
//upstream:pkg/printers/internalversion.printPriorityClass
//upstream:pkg/registry/scheduling/priorityclass/storage.REST.ShortNames
func PriorityClasses() kinds.Kind {
	return kinds.Of[*schedulingv1.PriorityClass]{
		Type: &schedulingv1.PriorityClass{}, List: &schedulingv1.PriorityClassList{},
		Plural: "priorityclasses", ShortNames: []string{"pc"}, Cluster: true,
		BeforeDelete: keepSystemPriority,
		Name:         fieldrules.NameIsSubdomain,
		Default: func(p *schedulingv1.PriorityClass) {
			fieldrules.DefaultPointer(&p.PreemptionPolicy, corev1.PreemptLowerPriority)
		},
		Prepare: func(_ context.Context, p, old *schedulingv1.PriorityClass) {
			if old == nil {
				p.SetGeneration(1)
			}
		},
		ValidateCreate: validatePriorityClass,
		ValidateUpdate: func(p, old *schedulingv1.PriorityClass) (errs field.ErrorList) {
			object := check.Object(&errs)
			check.Forbid(object.Child("value"), p.Value != old.Value, "may not be changed in an update.")
			check.Immutable(object.Child("preemptionPolicy"), p.PreemptionPolicy, old.PreemptionPolicy)
			return errs
		},
		Bare: true,
		Columns: []metav1.TableColumnDefinition{
			columns.NameColumn,
			columns.Column("Value", "integer", schedulingv1.PriorityClass{}.SwaggerDoc()["value"]),
			columns.Column("Global-Default", "boolean", schedulingv1.PriorityClass{}.SwaggerDoc()["globalDefault"]),
			columns.AgeColumn,
			columns.Column("PreemptionPolicy", "string", schedulingv1.PriorityClass{}.SwaggerDoc()["preemptionPolicy"]),
		},
		Row: func(p *schedulingv1.PriorityClass) []any {
			policy := ""
			if p.PreemptionPolicy != nil {
				policy = string(*p.PreemptionPolicy)
			}
			return []any{p.Name, int64(p.Value), p.GlobalDefault, columns.Age(p.CreationTimestamp), policy}
		},
	}
}

// SystemPriorityClasses returns the priority classes that every cluster has.
//
//upstream:pkg/apis/scheduling/v1.SystemPriorityClasses
func SystemPriorityClasses() []*schedulingv1.PriorityClass {
	return []*schedulingv1.PriorityClass{
		systemPriorityClass("system-node-critical",
			"Used for system critical pods that must not be moved from their current node."),
		systemPriorityClass("system-cluster-critical",
			"Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}

func systemPriorityClass(name, description string) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: systemPriorities[name],
		Description: description}
}

func keepSystemPriority(_ context.Context, name string, _ *metav1.DeleteOptions) error {
	if _, system := systemPriorities[name]; system {
		return errors.NewForbidden(schedulingv1.Resource("priorityclasses"), name,
			fmt.Errorf("this is a system priority class and cannot be deleted"))
	}
	return nil
}

//upstream:pkg/apis/scheduling/validation.ValidatePriorityClass
func validatePriorityClass(p *schedulingv1.PriorityClass) (errs field.ErrorList) {
	object := check.Object(&errs)
	if strings.HasPrefix(p.Name, systemPriorityPrefix) {
		value, ok := systemPriorities[p.Name]
		check.Forbid(object.Child("metadata").Child("name"), !ok || value != p.Value, "priority class names with '"+systemPriorityPrefix+
			"' prefix are reserved for system use only. error: "+p.Name+" is not a known system priority class")
	} else if p.Value > maxUserPriority {
		object.Child("value").Forbidden(fmt.Sprintf("maximum allowed value of a user defined priority is %v", maxUserPriority))
	}
	if p.PreemptionPolicy != nil {
		check.OneOf(object.Child("preemptionPolicy"), *p.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	return errs
}
