// Package flowcontrol describes the kinds of the flowcontrol.apiserver.k8s.io API group.
package flowcontrol

import (
	"context"
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// unenforced is the reason in the warning for these kinds.
const unenforced = "no request has to wait"

// FlowSchemas describes the kind FlowSchema.
//
//upstream:pkg/registry/flowcontrol/flowschema.flowSchemaStrategy
//upstream:pkg/registry/flowcontrol/flowschema.flowSchemaStatusStrategy
//upstream:pkg/apis/flowcontrol/v1.SetDefaults_FlowSchemaSpec
func FlowSchemas() kinds.Kind {
	return kinds.Of[*flowcontrolv1.FlowSchema]{
		Type: &flowcontrolv1.FlowSchema{}, List: &flowcontrolv1.FlowSchemaList{},
		Plural: "flowschemas", Cluster: true, Generation: true,
		Unenforced: unenforced,
		Name:       fieldrules.NameIsSubdomain,
		Default: func(s *flowcontrolv1.FlowSchema) {
			fieldrules.DefaultValue(&s.Spec.MatchingPrecedence, defaultPrecedence)
		},
		Validate: validateFlowSchema,
		Status:   true,
		PrepareStatus: func(_ context.Context, s, old *flowcontrolv1.FlowSchema) {
			keepMetadata(&s.ObjectMeta, &old.ObjectMeta)
		},
		StatusReset: []string{"metadata"},
		ValidateStatus: func(s, _ *flowcontrolv1.FlowSchema) field.ErrorList {
			return conditionTypes(len(s.Status.Conditions), func(i int) string { return string(s.Status.Conditions[i].Type) })
		},
		Bare: true,
		Columns: []metav1.TableColumnDefinition{
			columns.NameColumn,
			columns.Column("PriorityLevel", "string", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
			columns.Column("MatchingPrecedence", "string", flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()["matchingPrecedence"]),
			columns.Column("DistinguisherMethod", "string", flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()["distinguisherMethod"]),
			columns.AgeColumn,
			columns.Column("MissingPL", "string", "Whether the priority level is missing."),
		},
		Row: flowSchemaRow,
	}
}

// keepMetadata keeps all metadata but the managed fields: they record the update of the status.
//
//upstream:pkg/registry/flowcontrol/flowschema.flowSchemaStatusStrategy.PrepareForUpdate
//upstream:pkg/registry/flowcontrol/prioritylevelconfiguration.priorityLevelConfigurationStatusStrategy.PrepareForUpdate
func keepMetadata(m, old *metav1.ObjectMeta) {
	managed := m.ManagedFields
	*m = *old
	m.ManagedFields = managed
}

const (
	defaultPrecedence int32 = 1000
	maxPrecedence     int32 = 10000
)

// conditionTypes checks that each condition has a type, and that no two have the same.
//
//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaStatus
//upstream:pkg/apis/flowcontrol/validation.ValidatePriorityLevelConfigurationStatus
func conditionTypes(n int, typeOf func(i int) string) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Status.Child("conditions")
	seen := map[string]bool{}
	for i := range n {
		at, t := list.Index(i), typeOf(i)
		if seen[t] {
			errs = append(errs, field.Duplicate(at.ChildField("type"), t))
		}
		seen[t] = true
		errs = append(errs, fieldrules.Required(t, &at, "type")...)
	}
	return errs
}

// validateFlowSchema checks the spec. The mandatory schemas have a fixed spec.
//
//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchema
//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaSpec
func validateFlowSchema(f *flowcontrolv1.FlowSchema) field.ErrorList {
	s := &f.Spec
	var errs field.ErrorList
	precedence := func(why string) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("matchingPrecedence"), s.MatchingPrecedence, why))
	}
	switch {
	case s.MatchingPrecedence <= 0:
		precedence("must be a positive value")
	case s.MatchingPrecedence > maxPrecedence:
		precedence(fmt.Sprintf("must not be greater than %v", maxPrecedence))
	case s.MatchingPrecedence == 1 && f.Name != flowcontrolv1.FlowSchemaNameExempt:
		precedence("only the schema named 'exempt' may have matchingPrecedence 1")
	}
	if m := s.DistinguisherMethod; m != nil && m.Type != flowcontrolv1.FlowDistinguisherMethodByUserType && m.Type != flowcontrolv1.FlowDistinguisherMethodByNamespaceType {
		errs = append(errs, field.NotSupported(fieldrules.Spec.ChildField("distinguisherMethod").Child("type"), fieldrules.Internal(*m),
			[]string{string(flowcontrolv1.FlowDistinguisherMethodByNamespaceType), string(flowcontrolv1.FlowDistinguisherMethodByUserType)}))
	}
	at := fieldrules.Spec.Child("priorityLevelConfiguration")
	if name := s.PriorityLevelConfiguration.Name; name == "" {
		errs = append(errs, field.Required(at.ChildField("name"), "must reference a priority level"))
	} else {
		errs = append(errs, fieldrules.Invalid(fieldrules.NameIsSubdomain(name, false), name, &at, "name")...)
	}
	list := fieldrules.Spec.Child("rules")
	for i := range s.Rules {
		at := list.Index(i)
		errs = append(errs, flowRule(&s.Rules[i], &at)...)
	}
	for _, m := range bootstrap.MandatoryFlowSchemas {
		if m.Name == f.Name && !equality.Semantic(m.Spec, f.Spec) {
			errs = append(errs, field.Invalid(fieldrules.Spec.Field(), f.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", f.Name)))
		}
	}
	return errs
}

// flowRule checks the subjects and the requests of a rule.
//
//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaPolicyRulesWithSubjects
func flowRule(r *flowcontrolv1.PolicyRulesWithSubjects, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	subjects := w.Child("subjects")
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(subjects.Field(), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		at := subjects.Index(i)
		errs = append(errs, flowSubject(&r.Subjects[i], &at)...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(w.Field(), "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	resources := w.Child("resourceRules")
	for i := range r.ResourceRules {
		at := resources.Index(i)
		errs = append(errs, flowResources(&r.ResourceRules[i], &at)...)
	}
	others := w.Child("nonResourceRules")
	for i := range r.NonResourceRules {
		rule, at := &r.NonResourceRules[i], others.Index(i)
		errs = append(errs, flowVerbs(rule.Verbs, &at)...)
		errs = append(errs, wildcards(rule.NonResourceURLs, &at, "nonResourceURLs", "nonResourceURLs must contain at least one value", "non-resource URLs")...)
		urls := at.Child("nonResourceURLs")
		for j, u := range rule.NonResourceURLs {
			if why := flowURL(u); why != "" && !slices.Contains(rule.NonResourceURLs, "*") {
				item := urls.Index(j)
				errs = append(errs, field.Invalid(item.Field(), u, why))
			}
		}
	}
	return errs
}

// flowSubject checks that a subject has the field of its kind, and no other.
//
//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaSubject
//upstream:pkg/apis/flowcontrol/validation.ValidateUserSubject
//upstream:pkg/apis/flowcontrol/validation.ValidateGroupSubject
func flowSubject(s *flowcontrolv1.Subject, w *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Supported(s.Kind, w, "kind", flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser, flowcontrolv1.SubjectKindGroup)
	if len(errs) > 0 {
		return errs
	}
	for _, part := range [...]struct {
		kind  flowcontrolv1.SubjectKind
		name  string
		set   bool
		check func(at *fieldrules.Path) field.ErrorList
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(at *fieldrules.Path) field.ErrorList { return flowAccount(s.ServiceAccount, at) }},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil, func(at *fieldrules.Path) field.ErrorList { return fieldrules.Required(s.User.Name, at, "name") }},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil, func(at *fieldrules.Path) field.ErrorList { return fieldrules.Required(s.Group.Name, at, "name") }},
	} {
		at := w.Child(part.name)
		switch {
		case part.kind == s.Kind && part.set:
			errs = append(errs, part.check(&at)...)
		case part.kind == s.Kind:
			errs = append(errs, field.Required(at.Field(), fmt.Sprintf("%s is required when subject kind is '%s'", part.name, part.kind)))
		case part.set:
			errs = append(errs, field.Forbidden(at.Field(), fmt.Sprintf("%s is forbidden when subject kind is not '%s'", part.name, part.kind)))
		}
	}
	return errs
}

//upstream:pkg/apis/flowcontrol/validation.ValidateServiceAccountSubject
func flowAccount(a *flowcontrolv1.ServiceAccountSubject, w *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Required(a.Name, w, "name")
	if a.Name != "" && a.Name != flowcontrolv1.NameAll {
		errs = append(errs, fieldrules.Invalid(fieldrules.NameIsSubdomain(a.Name, false), a.Name, w, "name")...)
	}
	if a.Namespace == "" {
		return append(errs, field.Required(w.ChildField("namespace"), "must specify namespace for service account"))
	}
	return append(errs, fieldrules.Invalid(fieldrules.NameIsLabel(a.Namespace, false), a.Namespace, w, "namespace")...)
}

//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaResourcePolicyRule
func flowResources(r *flowcontrolv1.ResourcePolicyRule, w *fieldrules.Path) field.ErrorList {
	errs := flowVerbs(r.Verbs, w)
	errs = append(errs, wildcards(r.APIGroups, w, "apiGroups", "resource rules must supply at least one api group", "api groups")...)
	errs = append(errs, wildcards(r.Resources, w, "resources", "resource rules must supply at least one resource", "resources")...)
	if len(r.Namespaces) == 0 && r.ClusterScope {
		return errs
	}
	errs = append(errs, wildcards(r.Namespaces, w, "namespaces", "resource rules that are not cluster scoped must supply at least one namespace", "namespaces")...)
	if slices.Contains(r.Namespaces, flowcontrolv1.NamespaceEvery) {
		return errs
	}
	list := w.Child("namespaces")
	for i, n := range r.Namespaces {
		at := list.Index(i)
		for _, m := range fieldrules.NameIsLabel(n, false) {
			errs = append(errs, field.Invalid(at.Field(), n, "each member of this list must be '*' or a DNS-1123 label; "+m))
		}
	}
	return errs
}

// flowVerbsOf are the verbs of requests, in order.
//
//upstream:pkg/apis/flowcontrol/validation.supportedVerbs
var flowVerbsOf = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func flowVerbs(verbs []string, w *fieldrules.Path) field.ErrorList {
	errs := wildcards(verbs, w, "verbs", "verbs must contain at least one value", "verbs")
	if slices.Contains(verbs, flowcontrolv1.VerbAll) {
		return errs
	}
	if slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(flowVerbsOf, v) }) {
		errs = append(errs, field.NotSupported(w.ChildField("verbs"), verbs, flowVerbsOf))
	}
	return errs
}

// wildcards checks that a list is not empty, and that "*" has no elements beside it.
//
//upstream:pkg/apis/flowcontrol/validation.hasWildcard
func wildcards(list []string, w *fieldrules.Path, name, missing, others string) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(w.ChildField(name), missing)}
	case len(list) > 1 && slices.Contains(list, "*"):
		return field.ErrorList{field.Invalid(w.ChildField(name), list, "if '*' is present, must not specify other "+others)}
	}
	return nil
}

// flowURL returns the error of a path, or an empty string.
//
//upstream:pkg/apis/flowcontrol/validation.ValidateNonResourceURLPath
func flowURL(path string) string {
	switch n := strings.Count(path, "*"); {
	case path == "":
		return "must not be empty"
	case path == "/":
		return ""
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case n > 1 || n == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}

//upstream:pkg/printers/internalversion.printFlowSchema
func flowSchemaRow(f *flowcontrolv1.FlowSchema) []any {
	method, missing := columns.None, "?"
	if m := f.Spec.DistinguisherMethod; m != nil {
		method = string(m.Type)
	}
	for _, c := range f.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			missing = string(c.Status)
			break
		}
	}
	return []any{f.Name, f.Spec.PriorityLevelConfiguration.Name, int64(f.Spec.MatchingPrecedence), method, columns.Age(f.CreationTimestamp), missing}
}
