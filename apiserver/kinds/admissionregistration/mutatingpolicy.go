package admissionregistration

import (
	"strings"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
		Validate: func(b *admissionv1.MutatingAdmissionPolicyBinding) (errs field.ErrorList) {
			spec := check.Object(&errs).Child("spec")
			policyName(spec.Child("policyName"), b.Spec.PolicyName)
			check.Optional(spec.Child("paramRef"), b.Spec.ParamRef, paramRef)
			check.Optional(spec.Child("matchResources"), b.Spec.MatchResources, matchResources)
			check.Optional(spec.Child("matchResources"), b.Spec.MatchResources, noDeletes)
			return errs
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
func validateMutatingPolicy(p *admissionv1.MutatingAdmissionPolicy) (errs field.ErrorList) {
	spec, s, params := check.Object(&errs).Child("spec"), &p.Spec, p.Spec.ParamKind != nil
	mutations := spec.Child("mutations")
	requiredOneOf(spec.Child("failurePolicy"), s.FailurePolicy, admissionv1.Fail, admissionv1.Ignore)
	check.Optional(spec.Child("paramKind"), s.ParamKind, paramKind)
	matchConstraints(spec.Child("matchConstraints"), s.MatchConstraints)
	check.Optional(spec.Child("matchConstraints"), s.MatchConstraints, noDeletes)
	matchConditions(spec.Child("matchConditions"), s.MatchConditions, params)
	compiler := newComposited()
	variables(spec.Child("variables"), compiler, s.Variables, params)
	if len(s.Mutations) == 0 {
		mutations.Required("mutations must contain at least one item")
	}
	for i := range s.Mutations {
		mutation(mutations.Index(i), compiler, &s.Mutations[i], params)
	}
	check.OneOf(spec.Child("reinvocationPolicy"), s.ReinvocationPolicy,
		admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	return errs
}

// mutation checks that a mutation has the expression of its type, and no other.
//
//upstream:pkg/apis/admissionregistration/validation.validateMutation
func mutation(at check.Field, c cel.Compiler, m *admissionv1.Mutation, params bool) {
	patch, apply := at.Child("jsonPatch"), at.Child("applyConfiguration")
	switch m.PatchType {
	case admissionv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			patch.Required("must be specified when patchType is JSONPatch")
		} else {
			mutationExpression(patch.Child("expression"), c, m.JSONPatch.Expression, jsonPatchPatches, params)
		}
		if m.ApplyConfiguration != nil {
			apply.Invalid("{applyConfiguration}", "must not be specified when patchType is JSONPatch")
		}
	case admissionv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			apply.Required("must be specified when patchType is ApplyConfiguration")
		} else {
			mutationExpression(apply.Child("expression"), c, m.ApplyConfiguration.Expression, appliedObject, params)
		}
		if m.JSONPatch != nil {
			patch.Invalid("{jsonPatch}", "must not be specified when patchType is ApplyConfiguration")
		}
	default:
		check.OneOf(at.Child("patchType"), m.PatchType, admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch)
	}
}

//upstream:pkg/apis/admissionregistration/validation.validateApplyConfiguration
//upstream:pkg/apis/admissionregistration/validation.validateJSONPatch
func mutationExpression(at check.Field, c cel.Compiler, text string, types []*celgo.Type, params bool) {
	if text = strings.TrimSpace(text); text == "" {
		at.Required("")
		return
	}
	compile(at, c, expression{text: text, types: types},
		cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true, HasPatchTypes: true})
}
