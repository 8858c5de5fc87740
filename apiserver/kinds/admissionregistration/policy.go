package admissionregistration

import (
	"cmp"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// The rules that validating and mutating policies share.

//upstream:pkg/apis/admissionregistration/v1.SetDefaults_MatchResources
func defaultMatchResources(r *admissionv1.MatchResources) {
	if r == nil {
		return
	}
	fieldrules.DefaultPointer(&r.MatchPolicy, admissionv1.Equivalent)
	fieldrules.DefaultPointer(&r.NamespaceSelector, metav1.LabelSelector{})
	fieldrules.DefaultPointer(&r.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [...][]admissionv1.NamedRuleWithOperations{r.ResourceRules, r.ExcludeResourceRules} {
		for i := range rules {
			fieldrules.DefaultPointer(&rules[i].Scope, admissionv1.AllScopes)
		}
	}
}

// matchConstraints checks the resources to which a policy applies. At least one rule is required.
func matchConstraints(at check.Field, r *admissionv1.MatchResources) {
	if r == nil {
		at.Required("")
		return
	}
	matchResources(at, *r)
	if len(r.ResourceRules) == 0 {
		at.Child("resourceRules").Required("")
	}
}

//upstream:pkg/apis/admissionregistration/validation.validateMatchResources
func matchResources(at check.Field, r admissionv1.MatchResources) {
	requiredOneOf(at.Child("matchPolicy"), r.MatchPolicy, admissionv1.Equivalent, admissionv1.Exact)
	requiredSelector(at.Child("namespaceSelector"), r.NamespaceSelector)
	requiredSelector(at.Child("objectSelector"), r.ObjectSelector)
	namedRules(at.Child("resourceRules"), r.ResourceRules)
	namedRules(at.Child("excludeResourceRules"), r.ExcludeResourceRules)
}

func requiredSelector(at check.Field, s *metav1.LabelSelector) {
	if s == nil {
		at.Required("")
	}
	check.LabelSelector(at, s)
}

//upstream:pkg/apis/admissionregistration/validation.validateNamedRuleWithOperations
func namedRules(list check.Field, rules []admissionv1.NamedRuleWithOperations) {
	for i := range rules {
		r, at := &rules[i], list.Index(i)
		names := at.Child("resourceNames")
		var seen fieldrules.Seen[string]
		for j, n := range r.ResourceNames {
			check.Valid(names.Index(j), n, content.IsPathSegmentName)
			if !seen.Add(n) {
				names.Index(j).Duplicate(n)
			}
		}
		webhookRule(at, &r.RuleWithOperations)
	}
}

// noDeletes checks that a mutating policy does not apply to deletions: it has nothing to mutate there.
func noDeletes(at check.Field, r admissionv1.MatchResources) {
	operations := at.Child("resourceRules").Child("operations")
	for i := range r.ResourceRules {
		for _, o := range r.ResourceRules[i].Operations {
			check.Supported(operations, o, admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update)
		}
	}
}

// requiredOneOf is [check.OneOf] for a pointer that must be set; an empty value is not
// supported.
func requiredOneOf[S ~string](at check.Field, s *S, supported ...S) {
	if s == nil {
		at.Required("")
	}
	check.OptionalOneOf(at, s, supported...)
}

// policyName checks the name of the policy that a binding binds.
func policyName(at check.Field, name string) {
	check.Required(at, name)
	check.IfSet(at, name, check.DNSName)
}

// paramRef checks that a binding refers to its parameters either by name or by selector.
//
//upstream:pkg/apis/admissionregistration/validation.validateParamRef
func paramRef(at check.Field, r admissionv1.ParamRef) {
	name, selector, action := at.Child("name"), at.Child("selector"), at.Child("parameterNotFoundAction")
	if r.Name != "" {
		check.Valid(name, r.Name, content.IsPathSegmentName)
	}
	check.LabelSelector(selector, r.Selector)
	both := r.Name != "" && r.Selector != nil
	check.Forbid(name, both, "name and selector are mutually exclusive")
	check.Forbid(selector, both, "name and selector are mutually exclusive")
	if r.Name == "" && r.Selector == nil {
		at.Required("one of name or selector must be specified")
	}
	if a := r.ParameterNotFoundAction; a == nil {
		action.Required("")
	} else {
		check.OneOf(action, *a, admissionv1.DenyAction, admissionv1.AllowAction)
	}
}

func paramKindCell(k *admissionv1.ParamKind) string {
	if k == nil {
		return "<unset>"
	}
	return k.APIVersion + "/" + k.Kind
}

func paramRefCell(r *admissionv1.ParamRef) string {
	switch {
	case r == nil:
	case r.Name != "":
		return cmp.Or(r.Namespace, "*") + "/" + r.Name
	case r.Selector != nil:
		return r.Selector.String()
	}
	return "<unset>"
}
