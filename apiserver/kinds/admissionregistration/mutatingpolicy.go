package admissionregistration

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// MutatingPolicies describes the kind MutatingAdmissionPolicy.
//
//upstream:pkg/registry/admissionregistration/mutatingadmissionpolicy.mutatingAdmissionPolicyStrategy
//upstream:pkg/apis/admissionregistration/v1.SetDefaults_MutatingAdmissionPolicySpec
//upstream:pkg/apis/admissionregistration/validation.ValidateMutatingAdmissionPolicyUpdate
//upstream:pkg/printers/internalversion.printMutatingAdmissionPolicy
//upstream:pkg/registry/admissionregistration/mutatingadmissionpolicy/storage.REST.Categories
func MutatingPolicies() kinds.Kind {
	return kinds.Of[*admissionv1.MutatingAdmissionPolicy]{
		Type: &admissionv1.MutatingAdmissionPolicy{}, List: &admissionv1.MutatingAdmissionPolicyList{},
		Plural: "mutatingadmissionpolicies", Categories: []string{"api-extensions"},
		AnyFinalizers: true,
		Cluster:       true, Generation: true, NoUnconditionalUpdate: true,
		Name: fieldrules.NameIsSubdomain,
		Default: func(p *admissionv1.MutatingAdmissionPolicy) {
			fieldrules.DefaultPointer(&p.Spec.FailurePolicy, admissionv1.Fail)
			defaultMatchResources(p.Spec.MatchConstraints)
		},
		Validate:       validateMutatingPolicy,
		ValidateCreate: func(o *admissionv1.MutatingAdmissionPolicy) field.ErrorList { return notStatic(o.Name) },
		Warnings:       func(o, old *admissionv1.MutatingAdmissionPolicy) []string { return staticWarnings(o.Name, old == nil) },
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Mutations", "integer", "How many mutations the policy has."),
			columns.Column("ParamKind", "string", admissionv1.MutatingAdmissionPolicySpec{}.SwaggerDoc()["paramKind"]),
		},
		Row: func(p *admissionv1.MutatingAdmissionPolicy) []any {
			return []any{int64(len(p.Spec.Mutations)), paramKindCell(p.Spec.ParamKind)}
		},
	}
}

// MutatingPolicyBindings describes the kind MutatingAdmissionPolicyBinding.
//
//upstream:pkg/registry/admissionregistration/mutatingadmissionpolicybinding.mutatingAdmissionPolicyBindingStrategy
//upstream:pkg/apis/admissionregistration/validation.validateMutatingAdmissionPolicyBindingSpec
//upstream:pkg/printers/internalversion.printMutatingAdmissionPolicyBinding
//upstream:pkg/registry/admissionregistration/mutatingadmissionpolicybinding/storage.REST.Categories
func MutatingPolicyBindings() kinds.Kind {
	return kinds.Of[*admissionv1.MutatingAdmissionPolicyBinding]{
		Type: &admissionv1.MutatingAdmissionPolicyBinding{}, List: &admissionv1.MutatingAdmissionPolicyBindingList{},
		Plural: "mutatingadmissionpolicybindings", Categories: []string{"api-extensions"},
		AnyFinalizers: true,
		Cluster:       true, Generation: true, NoUnconditionalUpdate: true,
		Name:    fieldrules.NameIsSubdomain,
		Default: func(b *admissionv1.MutatingAdmissionPolicyBinding) { defaultMatchResources(b.Spec.MatchResources) },
		Validate: func(b *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
			errs := append(policyName(b.Spec.PolicyName), paramRef(b.Spec.ParamRef)...)
			errs = append(errs, matchResources(b.Spec.MatchResources, &fieldrules.Spec, "matchResources")...)
			return append(errs, noDeletes(b.Spec.MatchResources, &fieldrules.Spec, "matchResources")...)
		},
		ValidateCreate: func(o *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList { return notStatic(o.Name) },
		Warnings: func(o, old *admissionv1.MutatingAdmissionPolicyBinding) []string {
			return staticWarnings(o.Name, old == nil)
		},
		Columns: bindingColumns,
		Row: func(b *admissionv1.MutatingAdmissionPolicyBinding) []any {
			return []any{b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef)}
		},
	}
}

//upstream:pkg/apis/admissionregistration/validation.validateMutatingAdmissionPolicySpec
func validateMutatingPolicy(p *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	s, params := &p.Spec, p.Spec.ParamKind != nil
	errs := requiredOneOf(s.FailurePolicy, &fieldrules.Spec, "failurePolicy", admissionv1.Fail, admissionv1.Ignore)
	errs = append(errs, paramKind(s.ParamKind, &fieldrules.Spec)...)
	errs = append(errs, matchConstraints(s.MatchConstraints, &fieldrules.Spec)...)
	errs = append(errs, noDeletes(s.MatchConstraints, &fieldrules.Spec, "matchConstraints")...)
	errs = append(errs, matchConditions(s.MatchConditions, params, &fieldrules.Spec)...)
	compiler := newComposited()
	errs = append(errs, variables(compiler, s.Variables, params, &fieldrules.Spec)...)
	list := fieldrules.Spec.Child("mutations")
	if len(s.Mutations) == 0 {
		errs = append(errs, field.Required(list.Field(), "mutations must contain at least one item"))
	}
	for i := range s.Mutations {
		at := list.Index(i)
		errs = append(errs, mutation(compiler, &s.Mutations[i], params, &at)...)
	}
	return append(errs, fieldrules.OneOf(s.ReinvocationPolicy, &fieldrules.Spec, "reinvocationPolicy",
		admissionv1.NeverReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy)...)
}

// mutation checks that a mutation has the expression of its type, and no other.
//
//upstream:pkg/apis/admissionregistration/validation.validateMutation
func mutation(c cel.Compiler, m *admissionv1.Mutation, params bool, w *fieldrules.Path) field.ErrorList {
	switch m.PatchType {
	case admissionv1.PatchTypeJSONPatch:
		var errs field.ErrorList
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(w.ChildField("jsonPatch"), "must be specified when patchType is JSONPatch"))
		} else {
			errs = append(errs, mutationExpression(c, expression{text: m.JSONPatch.Expression, types: jsonPatchPatches}, params, w, "jsonPatch")...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(w.ChildField("applyConfiguration"), "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
		return errs
	case admissionv1.PatchTypeApplyConfiguration:
		var errs field.ErrorList
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(w.ChildField("applyConfiguration"), "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = append(errs, mutationExpression(c, expression{text: m.ApplyConfiguration.Expression, types: appliedObject}, params, w, "applyConfiguration")...)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(w.ChildField("jsonPatch"), "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
		return errs
	}
	return fieldrules.OneOf(m.PatchType, w, "patchType", admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch)
}

//upstream:pkg/apis/admissionregistration/validation.validateApplyConfiguration
//upstream:pkg/apis/admissionregistration/validation.validateJSONPatch
func mutationExpression(c cel.Compiler, e expression, params bool, w *fieldrules.Path, name string) field.ErrorList {
	at := w.Child(name)
	if e.text = strings.TrimSpace(e.text); e.text == "" {
		return field.ErrorList{field.Required(at.ChildField("expression"), "")}
	}
	return compile(c, e, cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true, HasPatchTypes: true}, &at, "expression")
}
