package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// staticSuffix ends the names of configurations from files.
//
//upstream:pkg/apis/admissionregistration/validation.StaticConfigSuffix
const staticSuffix = ".static.k8s.io"

const staticName = `names ending with "` + staticSuffix +
	`" are reserved for static manifest-based configurations and cannot be managed via the API`

// notStatic checks the name of a new object.
//
//upstream:pkg/apis/admissionregistration/validation.ValidateStaticSuffix
func notStatic(name string) field.ErrorList {
	if !strings.HasSuffix(name, staticSuffix) {
		return nil
	}
	return field.ErrorList{field.Invalid(fieldrules.Metadata.ChildField("name"), name, staticName)}
}

// staticWarnings warns about the name of an existing object. A new one with such a name is invalid.
//
//upstream:pkg/apis/admissionregistration/validation.WarningsForStaticSuffix
func staticWarnings(name string, created bool) []string {
	if created || !strings.HasSuffix(name, staticSuffix) {
		return nil
	}
	return []string{"metadata.name: " + staticName}
}

// excluded are the resources for which no webhook is called.
//
//upstream:pkg/kubeapiserver/admission/exclusion.excluded
var excluded = []schema.GroupResource{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
	{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
}

// ruleWarnings warns about excluded resources in the rules of a webhook, unless a wildcard includes them.
//
//upstream:pkg/apis/admissionregistration/validation.warningsForExcludedRules
//upstream:pkg/apis/admissionregistration/validation.excludedResourcesNamedByRule
func ruleWarnings(rules []admissionv1.RuleWithOperations, at *field.Path) []string {
	var warnings []string
	for i, rule := range rules {
		if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") {
			continue
		}
		var seen fieldrules.Seen[schema.GroupResource]
		for _, group := range rule.APIGroups {
			for _, name := range rule.Resources {
				gr := schema.GroupResource{Group: group, Resource: name}
				if slices.Contains(excluded, gr) && seen.Add(gr) {
					warnings = append(warnings, fmt.Sprintf("%s: %s is excluded from admission webhooks; this rule will have no effect", at.Index(i), gr))
				}
			}
		}
	}
	return warnings
}
