package builtin

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// emptyMetadata checks that a review has no metadata.
//
//upstream:pkg/apis/authorization/validation.ValidateSubjectAccessReview
//upstream:pkg/apis/authorization/validation.ValidateSelfSubjectAccessReview
func emptyMetadata(m metav1.ObjectMeta, message string) field.ErrorList {
	user := m
	user.ManagedFields = nil // the server's
	if equality.Semantic.DeepEqual(user, metav1.ObjectMeta{}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), m, message)}
}

// validateSelectors checks the selectors of a list, watch or deletion of a collection. An unknown operator is valid: newer
// clients may have more.
//
//upstream:pkg/apis/authorization/validation.validateFieldSelectorAttributes
//upstream:pkg/apis/authorization/validation.validateLabelSelectorAttributes
func validateSelectors(on *authorizationv1.ResourceAttributes) field.ErrorList {
	var errs field.ErrorList
	if on == nil {
		return nil
	}
	at := field.NewPath("spec", "resourceAttributes")
	if s := on.FieldSelector; s != nil {
		at := at.Child("fieldSelector")
		errs = append(errs, eitherSelector(s.RawSelector, len(s.Requirements), at)...)
		for i, r := range s.Requirements {
			errs = append(errs, validation.ValidateFieldSelectorRequirement(r,
				validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, at.Child("requirements").Index(i))...)
		}
	}
	if s := on.LabelSelector; s != nil {
		at := at.Child("labelSelector")
		errs = append(errs, eitherSelector(s.RawSelector, len(s.Requirements), at)...)
		for i, r := range s.Requirements {
			errs = append(errs, validation.ValidateLabelSelectorRequirement(r,
				validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, at.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// eitherSelector checks that a selector is either text or a list of requirements.
func eitherSelector(raw string, requirements int, at *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"),
			fmt.Sprintf("when %s is specified, requirements or rawSelector is required", at))}
	}
	return nil
}

// addSelectors adds the selectors to the attributes, and returns messages about invalid requirements. It drops invalid
// requirements, so that the decision covers more objects.
//
//upstream:pkg/registry/authorization/util.ResourceAttributesFrom
//upstream:pkg/registry/authorization/util.BuildEvaluationError
func addSelectors(to *authorizer.AttributesRecord, on *authorizationv1.ResourceAttributes) []string {
	var messages []string
	ignored := func(which string, err error, some bool) {
		switch {
		case err == nil:
		case some:
			messages = append(messages, "spec.resourceAttributes."+which+" partially ignored due to parse error")
		default:
			messages = append(messages, "spec.resourceAttributes."+which+" ignored due to parse error")
		}
	}
	if s := on.FieldSelector; s != nil {
		to.FieldSelectorRequirements, to.FieldSelectorParsingErr = fieldRequirements(s)
		ignored("fieldSelector", to.FieldSelectorParsingErr, len(to.FieldSelectorRequirements) > 0)
	}
	if s := on.LabelSelector; s != nil {
		to.LabelSelectorRequirements, to.LabelSelectorParsingErr = labelRequirements(s)
		ignored("labelSelector", to.LabelSelectorParsingErr, len(to.LabelSelectorRequirements) > 0)
	}
	return messages
}

// fieldRequirements returns the valid requirements of a selector, and the last error about an invalid one.
//
//upstream:pkg/registry/authorization/util.fieldSelectorAsSelector
func fieldRequirements(s *authorizationv1.FieldSelectorAttributes) (all fields.Requirements, err error) {
	if s.RawSelector != "" {
		selector, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, err
		}
		return selector.Requirements(), nil
	}
	operators := map[metav1.FieldSelectorOperator]selection.Operator{
		metav1.FieldSelectorOpIn: selection.Equals, metav1.FieldSelectorOpNotIn: selection.NotEquals}
	for _, r := range s.Requirements {
		operator, ok := operators[r.Operator]
		if !ok || len(r.Values) != 1 {
			err = fmt.Errorf("field selectors do not support %v with %d values", r.Operator, len(r.Values))
			continue
		}
		all = append(all, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
	}
	return all, err
}

// labelRequirements returns the valid requirements of a selector, and the last error about an invalid one.
//
//upstream:pkg/registry/authorization/util.labelSelectorAsSelector
func labelRequirements(s *authorizationv1.LabelSelectorAttributes) (all labels.Requirements, err error) {
	if s.RawSelector != "" {
		selector, err := labels.Parse(s.RawSelector)
		if err != nil {
			return nil, err
		}
		all, _ = selector.Requirements()
		return all, nil
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist}
	for _, r := range s.Requirements {
		operator, ok := operators[r.Operator]
		if !ok {
			err = fmt.Errorf("%q is not a valid label selector operator", r.Operator)
			continue
		}
		requirement, invalid := labels.NewRequirement(r.Key, operator, r.Values)
		if invalid != nil {
			err = invalid
			continue
		}
		all = append(all, *requirement)
	}
	return all, err
}
