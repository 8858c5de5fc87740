package kinds

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func podDisruptionBudgets() Kind {
	return Of[*policyv1.PodDisruptionBudget]{
		Type: &policyv1.PodDisruptionBudget{}, List: &policyv1.PodDisruptionBudgetList{},
		Plural: "poddisruptionbudgets", ShortNames: []string{"pdb"}, Generation: true, NoUnconditionalUpdate: true,
		Unenforced: "no eviction is refused",
		Name:       subdomain,
		Validate:   validateBudget,
		Status:     true,
		ValidateStatus: func(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
			s := &b.Status
			return counts(map[string]int32{"disruptionsAllowed": s.DisruptionsAllowed, "currentHealthy": s.CurrentHealthy,
				"desiredHealthy": s.DesiredHealthy, "expectedPods": s.ExpectedPods})
		},
		Columns: []metav1.TableColumnDefinition{
			column("Min Available", "string", "How many pods must stay."),
			column("Max Unavailable", "string", "How many pods may be missing."),
			column("Allowed Disruptions", "integer", "How many pods may be evicted now."),
		},
		Row: func(b *policyv1.PodDisruptionBudget) []any {
			return []any{countCell(b.Spec.MinAvailable), countCell(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed)}
		},
	}
}

func countCell(v *intstr.IntOrString) string {
	if v == nil {
		return "N/A"
	}
	return v.String()
}

func validateBudget(b *policyv1.PodDisruptionBudget) field.ErrorList {
	s := &b.Spec
	var errs field.ErrorList
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(specAt.path(), *s, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, count(s.MinAvailable, &specAt, "minAvailable")...)
	errs = append(errs, atMostAll(s.MinAvailable, &specAt, "minAvailable")...)
	errs = append(errs, count(s.MaxUnavailable, &specAt, "maxUnavailable")...)
	errs = append(errs, atMostAll(s.MaxUnavailable, &specAt, "maxUnavailable")...)
	errs = append(errs, oneOfIf(s.UnhealthyPodEvictionPolicy, &specAt, "unhealthyPodEvictionPolicy", policyv1.AlwaysAllow, policyv1.IfHealthyBudget)...)
	return append(errs, labelSelector(s.Selector, &specAt, "selector")...)
}
