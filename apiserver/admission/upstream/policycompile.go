package upstream

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// policyCompiler returns a compiler in which a policy's variables are defined. Expressions are
// compiled as stored ones: those that another version of the server has accepted are valid.
func policyCompiler(variables []admissionv1.Variable, options cel.OptionalVariableDeclarations) (*cel.CompositedCompiler, error) {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	named := make([]cel.NamedExpressionAccessor, len(variables))
	for i, v := range variables {
		named[i] = &validating.Variable{Name: v.Name, Expression: v.Expression}
	}
	compiler.CompileAndStoreVariables(named, options, environment.StoredExpressions)
	return compiler, nil
}

// policyMatcher compiles the match conditions of a policy. It returns nil if there are none.
func policyMatcher(compiler *cel.CompositedCompiler, conditions []admissionv1.MatchCondition, options cel.OptionalVariableDeclarations,
	failure *admissionv1.FailurePolicyType, name string) matchconditions.Matcher {
	if len(conditions) == 0 {
		return nil
	}
	expressions := make([]cel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		expressions[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	compiled := compiler.CompileCondition(expressions, options, environment.StoredExpressions)
	return matchconditions.NewMatcher(compiled, failure, "policy", "validate", name)
}

// compileValidating compiles a policy. An error is reported when the policy is evaluated.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/policy/validating.compilePolicy
func compileValidating(policy *admissionv1.ValidatingAdmissionPolicy) validating.Validator {
	spec := &policy.Spec
	options := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := policyCompiler(spec.Variables, options)
	if err != nil {
		return validating.NewValidator(nil, nil, nil, nil, spec.FailurePolicy, err)
	}
	var validations, messages, annotations []cel.ExpressionAccessor
	for _, v := range spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		var message cel.ExpressionAccessor
		if v.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		messages = append(messages, message) // one for each validation, in their order
	}
	for _, a := range spec.AuditAnnotations {
		annotations = append(annotations, &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	matcher := policyMatcher(compiler, spec.MatchConditions, options, spec.FailurePolicy, policy.Name)
	withoutAuthorizer := cel.OptionalVariableDeclarations{HasParams: options.HasParams}
	return validating.NewValidator(
		compiler.CompileCondition(validations, options, environment.StoredExpressions),
		matcher,
		compiler.CompileCondition(annotations, options, environment.StoredExpressions),
		compiler.CompileCondition(messages, withoutAuthorizer, environment.StoredExpressions),
		spec.FailurePolicy,
		nil,
	)
}

// compileMutating compiles a policy. An error is reported when the policy is evaluated.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/policy/mutating.compilePolicy
func compileMutating(policy *admissionv1.MutatingAdmissionPolicy) mutating.PolicyEvaluator {
	spec := &policy.Spec
	options := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := policyCompiler(spec.Variables, options)
	if err != nil {
		return mutating.PolicyEvaluator{Error: &apiservercel.Error{
			Type: apiservercel.ErrorTypeInternal, Detail: fmt.Sprintf("failed to initialize CEL compiler: %v", err),
		}}
	}
	e := mutating.PolicyEvaluator{
		CompositedCompiler: compiler,
		Matcher:            policyMatcher(compiler, spec.MatchConditions, options, spec.FailurePolicy, policy.Name),
	}
	options.HasPatchTypes = true
	for _, m := range spec.Mutations {
		switch {
		case m.PatchType == admissionv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			expression := &patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}
			e.Mutators = append(e.Mutators, patch.NewJSONPatcher(compiler.CompileMutatingEvaluator(expression, options, environment.StoredExpressions)))
		case m.PatchType == admissionv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			expression := &patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}
			e.Mutators = append(e.Mutators, patch.NewApplyConfigurationPatcher(compiler.CompileMutatingEvaluator(expression, options, environment.StoredExpressions)))
		}
	}
	return e
}
