package admissionregistration

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/client-go/util/jsonpath"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// ValidatingPolicies describes the kind ValidatingAdmissionPolicy.
//
//upstream:pkg/registry/admissionregistration/validatingadmissionpolicy.validatingAdmissionPolicyStrategy
//upstream:pkg/registry/admissionregistration/validatingadmissionpolicy.validatingAdmissionPolicyStatusStrategy
//upstream:pkg/apis/admissionregistration/v1.SetDefaults_ValidatingAdmissionPolicySpec
//upstream:pkg/apis/admissionregistration/validation.ValidateValidatingAdmissionPolicyUpdate
//upstream:pkg/printers/internalversion.printValidatingAdmissionPolicy
//upstream:pkg/registry/admissionregistration/validatingadmissionpolicy/storage.REST.Categories
func ValidatingPolicies() kinds.Kind {
	return kinds.Of[*admissionv1.ValidatingAdmissionPolicy]{
		Type: &admissionv1.ValidatingAdmissionPolicy{}, List: &admissionv1.ValidatingAdmissionPolicyList{},
		Plural: "validatingadmissionpolicies", Categories: []string{"api-extensions"},
		AnyFinalizers: true,
		Cluster:       true, Generation: true, NoUnconditionalUpdate: true,
		Name: fieldrules.NameIsSubdomain,
		Default: func(p *admissionv1.ValidatingAdmissionPolicy) {
			fieldrules.DefaultPointer(&p.Spec.FailurePolicy, admissionv1.Fail)
			defaultMatchResources(p.Spec.MatchConstraints)
		},
		Validate:      validateValidatingPolicy,
		Status:        true,
		PrepareStatus: kinds.KeepMetadata[*admissionv1.ValidatingAdmissionPolicy],
		StatusReset:   []string{"metadata"},
		ValidateStatus: func(p, _ *admissionv1.ValidatingAdmissionPolicy) (errs field.ErrorList) {
			status := check.Object(&errs).Child("status")
			conditions := status.Child("conditions")
			check.Optional(status.Child("typeChecking"), p.Status.TypeChecking, typeChecking)
			conditions.Report(metav1validation.ValidateConditions(p.Status.Conditions, conditions.Path.Field())...)
			return errs
		},
		ValidateCreate: func(o *admissionv1.ValidatingAdmissionPolicy) field.ErrorList { return notStatic(o.Name) },
		Warnings: func(o, old *admissionv1.ValidatingAdmissionPolicy) []string {
			return staticWarnings(o.Name, old == nil)
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Validations", "integer", "How many validations the policy has."),
			columns.Column("ParamKind", "string", admissionv1.ValidatingAdmissionPolicySpec{}.SwaggerDoc()["paramKind"]),
		},
		Row: func(p *admissionv1.ValidatingAdmissionPolicy) []any {
			return []any{int64(len(p.Spec.Validations)), paramKindCell(p.Spec.ParamKind)}
		},
	}
}

var bindingColumns = []metav1.TableColumnDefinition{
	columns.Column("PolicyName", "string", admissionv1.ValidatingAdmissionPolicyBindingSpec{}.SwaggerDoc()["policyName"]),
	columns.Column("ParamRef", "string", admissionv1.ValidatingAdmissionPolicyBindingSpec{}.SwaggerDoc()["paramRef"]),
}

// ValidatingPolicyBindings describes the kind ValidatingAdmissionPolicyBinding.
//
//upstream:pkg/registry/admissionregistration/validatingadmissionpolicybinding.validatingAdmissionPolicyBindingStrategy
//upstream:pkg/apis/admissionregistration/validation.validateValidatingAdmissionPolicyBindingSpec
//upstream:pkg/printers/internalversion.printValidatingAdmissionPolicyBinding
//upstream:pkg/registry/admissionregistration/validatingadmissionpolicybinding/storage.REST.Categories
func ValidatingPolicyBindings() kinds.Kind {
	return kinds.Of[*admissionv1.ValidatingAdmissionPolicyBinding]{
		Type: &admissionv1.ValidatingAdmissionPolicyBinding{}, List: &admissionv1.ValidatingAdmissionPolicyBindingList{},
		Plural: "validatingadmissionpolicybindings", Categories: []string{"api-extensions"},
		AnyFinalizers: true,
		Cluster:       true, Generation: true, NoUnconditionalUpdate: true,
		Name:    fieldrules.NameIsSubdomain,
		Default: func(b *admissionv1.ValidatingAdmissionPolicyBinding) { defaultMatchResources(b.Spec.MatchResources) },
		Validate: func(b *admissionv1.ValidatingAdmissionPolicyBinding) (errs field.ErrorList) {
			spec := check.Object(&errs).Child("spec")
			policyName(spec.Child("policyName"), b.Spec.PolicyName)
			check.Optional(spec.Child("paramRef"), b.Spec.ParamRef, paramRef)
			check.Optional(spec.Child("matchResources"), b.Spec.MatchResources, matchResources)
			validationActions(spec.Child("validationActions"), b.Spec.ValidationActions)
			return errs
		},
		ValidateCreate: func(o *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList { return notStatic(o.Name) },
		Warnings: func(o, old *admissionv1.ValidatingAdmissionPolicyBinding) []string {
			return staticWarnings(o.Name, old == nil)
		},
		Columns: bindingColumns,
		Row: func(b *admissionv1.ValidatingAdmissionPolicyBinding) []any {
			return []any{b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef)}
		},
	}
}

//upstream:pkg/apis/admissionregistration/validation.validateValidationActions
func validationActions(list check.Field, actions []admissionv1.ValidationAction) {
	var seen fieldrules.Seen[admissionv1.ValidationAction]
	for i, a := range actions {
		check.Supported(list.Index(i), a, admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)
		if !seen.Add(a) {
			list.Index(i).Duplicate(a)
		}
	}
	if seen.Has(admissionv1.Deny) && seen.Has(admissionv1.Warn) {
		list.Invalid(actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)")
	}
	if len(actions) == 0 {
		list.Required("")
	}
}

//upstream:pkg/apis/admissionregistration/validation.validateValidatingAdmissionPolicySpec
func validateValidatingPolicy(p *admissionv1.ValidatingAdmissionPolicy) (errs field.ErrorList) {
	spec, s, params := check.Object(&errs).Child("spec"), &p.Spec, p.Spec.ParamKind != nil
	validations, annotations := spec.Child("validations"), spec.Child("auditAnnotations")
	requiredOneOf(spec.Child("failurePolicy"), s.FailurePolicy, admissionv1.Fail, admissionv1.Ignore)
	check.Optional(spec.Child("paramKind"), s.ParamKind, paramKind)
	matchConstraints(spec.Child("matchConstraints"), s.MatchConstraints)
	matchConditions(spec.Child("matchConditions"), s.MatchConditions, params)
	compiler := stateless()
	if len(s.Variables) > 0 {
		composited := newComposited()
		variables(spec.Child("variables"), composited, s.Variables, params)
		compiler = composited
	}
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		validations.Required("validations or auditAnnotations must contain at least one item")
		annotations.Required("validations or auditAnnotations must contain at least one item")
		return errs
	}
	for i := range s.Validations {
		policyValidation(validations.Index(i), compiler, &s.Validations[i], params)
	}
	auditAnnotations(annotations, compiler, p, params)
	return errs
}

// validationReasons are the reasons that a validation may give.
//
//upstream:pkg/apis/admissionregistration/validation.supportedValidationPolicyReason
var validationReasons = []metav1.StatusReason{
	metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge,
}

//upstream:pkg/apis/admissionregistration/validation.validateValidation
//upstream:pkg/apis/admissionregistration/validation.validateValidationExpression
//upstream:pkg/apis/admissionregistration/validation.validateMessageExpression
func policyValidation(at check.Field, c cel.Compiler, v *admissionv1.Validation, params bool) {
	const empty = "must be non-empty if specified"
	condition, message, messageExpression := at.Child("expression"), at.Child("message"), at.Child("messageExpression")
	if strings.TrimSpace(v.Expression) == "" {
		condition.Required("expression is not specified")
	} else {
		compile(condition, c, expression{text: v.Expression, types: boolean},
			cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true})
	}
	switch {
	case v.MessageExpression == "":
	case strings.TrimSpace(v.MessageExpression) == "":
		messageExpression.Invalid(v.MessageExpression, empty)
	default:
		compile(messageExpression, c, expression{text: v.MessageExpression, types: text}, cel.OptionalVariableDeclarations{HasParams: params})
	}
	switch m := strings.TrimSpace(v.Message); {
	case v.Message == "":
	case m == "":
		message.Invalid(v.Message, empty)
	case strings.ContainsAny(m, "\n\r"):
		message.Invalid(v.Message, "must not contain line breaks")
	}
	check.OptionalOneOf(at.Child("reason"), v.Reason, validationReasons...)
}

// The limits of the audit annotations of a policy: their number, and the bytes of an expression.
const (
	maxAuditAnnotations     = 20
	maxAnnotationExpression = 5 << 10
)

// auditAnnotations checks the keys and the expressions of the audit annotations of a policy.
//
//upstream:pkg/apis/admissionregistration/validation.validateAuditAnnotation
func auditAnnotations(list check.Field, c cel.Compiler, p *admissionv1.ValidatingAdmissionPolicy, params bool) {
	annotations := p.Spec.AuditAnnotations
	if len(annotations) > maxAuditAnnotations {
		list.Invalidf(annotations, "must not have more than %d auditAnnotations", maxAuditAnnotations)
	}
	var keys fieldrules.Seen[string]
	for i, a := range annotations {
		key, value := list.Index(i).Child("key"), list.Index(i).Child("valueExpression")
		if p.Name == "" {
			key.Invalid(a.Key, "requires metadata.name be non-empty")
		} else {
			check.QualifiedName(key, p.Name+"/"+a.Key)
		}
		switch e := strings.TrimSpace(a.ValueExpression); {
		case e == "":
			value.Required("valueExpression is not specified")
		case len(e) > maxAnnotationExpression:
			value.Required(fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationExpression))
		default:
			compile(value, c, expression{text: e, written: a.ValueExpression, types: optionalText},
				cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true})
		}
		if !keys.Add(a.Key) {
			key.Duplicate(a.Key)
		}
	}
}

// typeChecking checks the warnings about expressions in the status.
//
//upstream:pkg/apis/admissionregistration/validation.validateValidatingAdmissionPolicyStatus
//upstream:pkg/apis/admissionregistration/validation.validateTypeChecking
//upstream:pkg/apis/admissionregistration/validation.validateExpressionWarning
//upstream:pkg/apis/admissionregistration/validation.validateFieldRef
func typeChecking(at check.Field, t admissionv1.TypeChecking) {
	list := at.Child("expressionWarnings")
	for i, w := range t.ExpressionWarnings {
		at := list.Index(i).Child("fieldRef")
		check.Required(list.Index(i).Child("warning"), w.Warning)
		ref := strings.TrimSpace(w.FieldRef)
		if ref == "" {
			at.Required("")
		} else if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
			at.Invalidf(ref, "invalid JSONPath: %v", err)
		}
	}
}
