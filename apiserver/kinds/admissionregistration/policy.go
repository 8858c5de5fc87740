package admissionregistration

import (
	"cmp"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
func matchConstraints(r *admissionv1.MatchResources, w *fieldrules.Path) field.ErrorList {
	if r == nil {
		return field.ErrorList{field.Required(w.ChildField("matchConstraints"), "")}
	}
	errs := matchResources(r, w, "matchConstraints")
	if len(r.ResourceRules) == 0 {
		errs = append(errs, field.Required(w.ChildField("matchConstraints").Child("resourceRules"), ""))
	}
	return errs
}

//upstream:pkg/apis/admissionregistration/validation.validateMatchResources
func matchResources(r *admissionv1.MatchResources, w *fieldrules.Path, name string) field.ErrorList {
	if r == nil {
		return nil
	}
	at := w.Child(name)
	errs := requiredOneOf(r.MatchPolicy, &at, "matchPolicy", admissionv1.Equivalent, admissionv1.Exact)
	for _, s := range [...]struct {
		selector *metav1.LabelSelector
		name     string
	}{{r.NamespaceSelector, "namespaceSelector"}, {r.ObjectSelector, "objectSelector"}} {
		if s.selector == nil {
			errs = append(errs, field.Required(at.ChildField(s.name), ""))
		}
		errs = append(errs, fieldrules.LabelSelector(s.selector, &at, s.name)...)
	}
	errs = append(errs, namedRules(r.ResourceRules, &at, "resourceRules")...)
	return append(errs, namedRules(r.ExcludeResourceRules, &at, "excludeResourceRules")...)
}

//upstream:pkg/apis/admissionregistration/validation.validateNamedRuleWithOperations
func namedRules(rules []admissionv1.NamedRuleWithOperations, w *fieldrules.Path, name string) field.ErrorList {
	var errs field.ErrorList
	list := w.Child(name)
	for i := range rules {
		r, at := &rules[i], list.Index(i)
		names := at.Child("resourceNames")
		var seen fieldrules.Seen[string]
		for j, n := range r.ResourceNames {
			item := names.Index(j)
			errs = append(errs, fieldrules.Invalid(fieldrules.NameIsPathSegment(n, false), n, &item, "")...)
			if !seen.Add(n) {
				errs = append(errs, field.Duplicate(item.Field(), n))
			}
		}
		errs = append(errs, webhookRule(&r.RuleWithOperations, &at)...)
	}
	return errs
}

// noDeletes checks that a mutating policy does not apply to deletions: it has nothing to mutate there.
func noDeletes(r *admissionv1.MatchResources, w *fieldrules.Path, name string) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	at := w.Child(name)
	rules := at.Child("resourceRules")
	for i := range r.ResourceRules {
		for _, o := range r.ResourceRules[i].Operations {
			errs = append(errs, fieldrules.Supported(o, &rules, "operations",
				admissionv1.OperationAll, admissionv1.Create, admissionv1.Update, admissionv1.Connect)...)
		}
	}
	return errs
}

// requiredOneOf is [fieldrules.OneOf] for a pointer that must be set; an empty value is not
// supported.
func requiredOneOf[S ~string](s *S, w *fieldrules.Path, name string, allowed ...S) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(w.ChildField(name), "")}
	}
	return fieldrules.Supported(*s, w, name, allowed...)
}

// policyName checks the name of the policy that a binding binds.
func policyName(name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(fieldrules.Spec.ChildField("policyName"), "")}
	}
	return fieldrules.Invalid(fieldrules.NameIsSubdomain(name, false), name, &fieldrules.Spec, "policyName")
}

// paramRef checks that a binding refers to its parameters either by name or by selector.
//
//upstream:pkg/apis/admissionregistration/validation.validateParamRef
func paramRef(r *admissionv1.ParamRef) field.ErrorList {
	if r == nil {
		return nil
	}
	const exclusive = "name and selector are mutually exclusive"
	at := fieldrules.Spec.Child("paramRef")
	var errs field.ErrorList
	if r.Name != "" {
		errs = append(errs, fieldrules.Invalid(fieldrules.NameIsPathSegment(r.Name, false), r.Name, &at, "name")...)
	}
	errs = append(errs, fieldrules.LabelSelector(r.Selector, &at, "selector")...)
	switch {
	case r.Name != "" && r.Selector != nil:
		errs = append(errs, field.Forbidden(at.ChildField("name"), exclusive), field.Forbidden(at.ChildField("selector"), exclusive))
	case r.Name == "" && r.Selector == nil:
		errs = append(errs, field.Required(at.Field(), "one of name or selector must be specified"))
	}
	switch a := r.ParameterNotFoundAction; {
	case a == nil || *a == "":
		errs = append(errs, field.Required(at.ChildField("parameterNotFoundAction"), ""))
	case *a != admissionv1.DenyAction && *a != admissionv1.AllowAction:
		errs = append(errs, field.NotSupported(at.ChildField("parameterNotFoundAction"), *a,
			[]admissionv1.ParameterNotFoundActionType{admissionv1.DenyAction, admissionv1.AllowAction}))
	}
	return errs
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
