package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/client-go/util/jsonpath"

	"flyball.dev/apiserver/kinds"
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
		ValidateStatus: func(p, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
			return append(typeChecking(p.Status.TypeChecking),
				metav1validation.ValidateConditions(p.Status.Conditions, fieldrules.Status.ChildField("conditions"))...)
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
		Validate: func(b *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
			errs := append(policyName(b.Spec.PolicyName), paramRef(b.Spec.ParamRef)...)
			errs = append(errs, matchResources(b.Spec.MatchResources, &fieldrules.Spec, "matchResources")...)
			return append(errs, validationActions(b.Spec.ValidationActions)...)
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
func validationActions(actions []admissionv1.ValidationAction) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child("validationActions")
	var seen fieldrules.Seen[admissionv1.ValidationAction]
	for i, a := range actions {
		at := list.Index(i)
		errs = append(errs, fieldrules.Supported(a, &at, "", admissionv1.Deny, admissionv1.Warn, admissionv1.Audit)...)
		if !seen.Add(a) {
			errs = append(errs, field.Duplicate(at.Field(), a))
		}
	}
	if slices.Contains(actions, admissionv1.Deny) && slices.Contains(actions, admissionv1.Warn) {
		errs = append(errs, field.Invalid(list.Field(), actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	if len(actions) == 0 {
		errs = append(errs, field.Required(list.Field(), ""))
	}
	return errs
}

//upstream:pkg/apis/admissionregistration/validation.validateValidatingAdmissionPolicySpec
func validateValidatingPolicy(p *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	s, params := &p.Spec, p.Spec.ParamKind != nil
	errs := requiredOneOf(s.FailurePolicy, &fieldrules.Spec, "failurePolicy", admissionv1.Fail, admissionv1.Ignore)
	errs = append(errs, paramKind(s.ParamKind, &fieldrules.Spec)...)
	errs = append(errs, matchConstraints(s.MatchConstraints, &fieldrules.Spec)...)
	errs = append(errs, matchConditions(s.MatchConditions, params, &fieldrules.Spec)...)
	compiler := stateless()
	if len(s.Variables) > 0 {
		composited := newComposited()
		errs = append(errs, variables(composited, s.Variables, params, &fieldrules.Spec)...)
		compiler = composited
	}
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		const missing = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(fieldrules.Spec.ChildField("validations"), missing), field.Required(fieldrules.Spec.ChildField("auditAnnotations"), missing))
	}
	list := fieldrules.Spec.Child("validations")
	for i := range s.Validations {
		at := list.Index(i)
		errs = append(errs, policyValidation(compiler, &s.Validations[i], params, &at)...)
	}
	return append(errs, auditAnnotations(compiler, p, params)...)
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
func policyValidation(c cel.Compiler, v *admissionv1.Validation, params bool, w *fieldrules.Path) field.ErrorList {
	const empty = "must be non-empty if specified"
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(w.ChildField("expression"), "expression is not specified"))
	} else {
		errs = append(errs, compile(c, expression{text: v.Expression, types: boolean},
			cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, w, "expression")...)
	}
	switch {
	case v.MessageExpression == "":
	case strings.TrimSpace(v.MessageExpression) == "":
		errs = append(errs, field.Invalid(w.ChildField("messageExpression"), v.MessageExpression, empty))
	default:
		errs = append(errs, compile(c, expression{text: v.MessageExpression, types: text},
			cel.OptionalVariableDeclarations{HasParams: params}, w, "messageExpression")...)
	}
	switch message := strings.TrimSpace(v.Message); {
	case v.Message == "":
	case message == "":
		errs = append(errs, field.Invalid(w.ChildField("message"), v.Message, empty))
	case strings.ContainsAny(message, "\n\r"):
		errs = append(errs, field.Invalid(w.ChildField("message"), v.Message, "must not contain line breaks"))
	}
	return append(errs, fieldrules.OptionalOneOf(v.Reason, w, "reason", validationReasons...)...)
}

// The limits of the audit annotations of a policy: their number, and the bytes of an expression.
const (
	maxAuditAnnotations     = 20
	maxAnnotationExpression = 5 << 10
)

// auditAnnotations checks the keys and the expressions of the audit annotations of a policy.
//
//upstream:pkg/apis/admissionregistration/validation.validateAuditAnnotation
func auditAnnotations(c cel.Compiler, p *admissionv1.ValidatingAdmissionPolicy, params bool) field.ErrorList {
	var errs field.ErrorList
	annotations := p.Spec.AuditAnnotations
	list := fieldrules.Spec.Child("auditAnnotations")
	if len(annotations) > maxAuditAnnotations {
		errs = append(errs, field.Invalid(list.Field(), annotations, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	var keys fieldrules.Seen[string]
	for i, a := range annotations {
		at := list.Index(i)
		if p.Name == "" {
			errs = append(errs, field.Invalid(at.ChildField("key"), a.Key, "requires metadata.name be non-empty"))
		} else {
			errs = append(errs, fieldrules.QualifiedName(p.Name+"/"+a.Key, &at, "key")...)
		}
		switch e := strings.TrimSpace(a.ValueExpression); {
		case e == "":
			errs = append(errs, field.Required(at.ChildField("valueExpression"), "valueExpression is not specified"))
		case len(e) > maxAnnotationExpression:
			errs = append(errs, field.Required(at.ChildField("valueExpression"), fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationExpression)))
		default:
			errs = append(errs, compile(c, expression{text: e, written: a.ValueExpression, types: optionalText},
				cel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, &at, "valueExpression")...)
		}
		if !keys.Add(a.Key) {
			errs = append(errs, field.Duplicate(at.ChildField("key"), a.Key))
		}
	}
	return errs
}

// typeChecking checks the warnings about expressions in the status.
//
//upstream:pkg/apis/admissionregistration/validation.validateValidatingAdmissionPolicyStatus
//upstream:pkg/apis/admissionregistration/validation.validateTypeChecking
//upstream:pkg/apis/admissionregistration/validation.validateExpressionWarning
//upstream:pkg/apis/admissionregistration/validation.validateFieldRef
func typeChecking(t *admissionv1.TypeChecking) field.ErrorList {
	if t == nil {
		return nil
	}
	var errs field.ErrorList
	in := fieldrules.Status.Child("typeChecking")
	list := in.Child("expressionWarnings")
	for i, w := range t.ExpressionWarnings {
		at := list.Index(i)
		errs = append(errs, fieldrules.Required(w.Warning, &at, "warning")...)
		ref := strings.TrimSpace(w.FieldRef)
		if ref == "" {
			errs = append(errs, field.Required(at.ChildField("fieldRef"), ""))
		} else if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
			errs = append(errs, field.Invalid(at.ChildField("fieldRef"), ref, fmt.Sprintf("invalid JSONPath: %v", err)))
		}
	}
	return errs
}
