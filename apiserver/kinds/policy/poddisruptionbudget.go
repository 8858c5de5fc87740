// Package policy describes the kinds of the policy API group.
package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/workload"
)

// PodDisruptionBudgets describes the kind PodDisruptionBudget. Evictions of pods read the stored objects through budgets.
// With old, policy/v1beta1 is served too.
//
//upstream:pkg/registry/policy/poddisruptionbudget.podDisruptionBudgetStrategy
//upstream:pkg/registry/policy/poddisruptionbudget.podDisruptionBudgetStatusStrategy
//upstream:pkg/apis/policy/validation.ValidatePodDisruptionBudgetStatusUpdate
//upstream:pkg/printers/internalversion.printPodDisruptionBudget
//upstream:pkg/registry/policy/poddisruptionbudget/storage.REST.ShortNames
func PodDisruptionBudgets(budgets *core.Budgets, old bool) kinds.Kind {
	k := kinds.Of[*policyv1.PodDisruptionBudget]{
		Type: &policyv1.PodDisruptionBudget{}, List: &policyv1.PodDisruptionBudgetList{},
		Plural: "poddisruptionbudgets", ShortNames: []string{"pdb"}, Generation: true, NoUnconditionalUpdate: true,
		AnyFinalizers: true,
		Name:          fieldrules.NameIsPathSegment,
		Validate:      validateBudget,
		Status:        true,
		ValidateStatus: func(b, _ *policyv1.PodDisruptionBudget) (errs field.ErrorList) {
			status, s := check.Object(&errs).Child("status"), &b.Status
			conditions := status.Child("conditions")
			conditions.Report(metav1validation.ValidateConditions(s.Conditions, conditions.Path.Field())...)
			workload.Counts(status, map[string]int32{"disruptionsAllowed": s.DisruptionsAllowed,
				"currentHealthy": s.CurrentHealthy, "desiredHealthy": s.DesiredHealthy, "expectedPods": s.ExpectedPods})
			return errs
		},
		More: func(s kinds.Stored[*policyv1.PodDisruptionBudget]) map[string]rest.Storage {
			budgets.Stored = s
			return nil
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Min Available", "string", "How many pods must stay."),
			columns.Column("Max Unavailable", "string", "How many pods may be missing."),
			columns.Column("Allowed Disruptions", "integer", "How many pods may be evicted now."),
		},
		Row: func(b *policyv1.PodDisruptionBudget) []any {
			return []any{countCell(b.Spec.MinAvailable), countCell(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed)}
		},
	}
	if old {
		k.AlsoServed = removed
	}
	return k
}

func countCell(v *intstr.IntOrString) string {
	if v == nil {
		return "N/A"
	}
	return v.String()
}

//upstream:pkg/apis/policy/validation.ValidatePodDisruptionBudgetSpec
func validateBudget(b *policyv1.PodDisruptionBudget) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &b.Spec
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		spec.Invalid(fieldrules.Internal(*s), "minAvailable and maxUnavailable cannot be both set")
	}
	check.IntOrPercent(spec.Child("minAvailable"), s.MinAvailable)
	check.AtMost100Percent(spec.Child("minAvailable"), s.MinAvailable)
	check.IntOrPercent(spec.Child("maxUnavailable"), s.MaxUnavailable)
	check.AtMost100Percent(spec.Child("maxUnavailable"), s.MaxUnavailable)
	check.OptionalOneOf(spec.Child("unhealthyPodEvictionPolicy"), s.UnhealthyPodEvictionPolicy, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	check.LabelSelector(spec.Child("selector"), s.Selector)
	return errs
}
