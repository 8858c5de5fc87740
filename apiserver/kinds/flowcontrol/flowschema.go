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
	"flyball.dev/apiserver/kinds/check"
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
			return conditionTypes(s.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) string { return string(c.Type) })
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
func conditionTypes[C any](conditions []C, typeOf func(C) string) (errs field.ErrorList) {
	list := check.Object(&errs).Child("status").Child("conditions")
	var seen fieldrules.Seen[string]
	for i, c := range conditions {
		at := list.Index(i).Child("type")
		if !seen.Add(typeOf(c)) {
			at.Duplicate(typeOf(c))
		}
		check.Required(at, typeOf(c))
	}
	return errs
}

// validateFlowSchema checks the spec. The mandatory schemas have a fixed spec.
//
//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchema
//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaSpec
func validateFlowSchema(f *flowcontrolv1.FlowSchema) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &f.Spec
	level, rules := spec.Child("priorityLevelConfiguration").Child("name"), spec.Child("rules")
	switch precedence := spec.Child("matchingPrecedence"); {
	case s.MatchingPrecedence <= 0:
		precedence.Invalid(s.MatchingPrecedence, "must be a positive value")
	case s.MatchingPrecedence > maxPrecedence:
		precedence.Invalidf(s.MatchingPrecedence, "must not be greater than %v", maxPrecedence)
	case s.MatchingPrecedence == 1 && f.Name != flowcontrolv1.FlowSchemaNameExempt:
		precedence.Invalid(s.MatchingPrecedence, "only the schema named 'exempt' may have matchingPrecedence 1")
	}
	if m := s.DistinguisherMethod; m != nil && m.Type != flowcontrolv1.FlowDistinguisherMethodByUserType && m.Type != flowcontrolv1.FlowDistinguisherMethodByNamespaceType {
		spec.Child("distinguisherMethod").Child("type").NotSupported(fieldrules.Internal(*m), "ByNamespace", "ByUser")
	}
	if s.PriorityLevelConfiguration.Name == "" {
		level.Required("must reference a priority level")
	}
	check.IfSet(level, s.PriorityLevelConfiguration.Name, check.DNSName)
	for i := range s.Rules {
		flowRule(rules.Index(i), &s.Rules[i])
	}
	for _, m := range bootstrap.MandatoryFlowSchemas {
		if m.Name == f.Name && !equality.Semantic(m.Spec, f.Spec) {
			spec.Invalid(f.Spec, "spec of '"+f.Name+"' must equal the fixed value")
		}
	}
	return errs
}

// flowRule checks the subjects and the requests of a rule.
//
//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaPolicyRulesWithSubjects
func flowRule(at check.Field, r *flowcontrolv1.PolicyRulesWithSubjects) {
	subjects, resources, others := at.Child("subjects"), at.Child("resourceRules"), at.Child("nonResourceRules")
	if len(r.Subjects) == 0 {
		subjects.Required("subjects must contain at least one value")
	}
	for i := range r.Subjects {
		flowSubject(subjects.Index(i), &r.Subjects[i])
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		at.Required("at least one of resourceRules and nonResourceRules has to be non-empty")
	}
	for i := range r.ResourceRules {
		flowResources(resources.Index(i), &r.ResourceRules[i])
	}
	for i := range r.NonResourceRules {
		flowURLs(others.Index(i), &r.NonResourceRules[i])
	}
}

var subjectKinds = []flowcontrolv1.SubjectKind{flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser}

// flowSubject checks that a subject has the field of its kind, and no other.
//
//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaSubject
//upstream:pkg/apis/flowcontrol/validation.ValidateUserSubject
//upstream:pkg/apis/flowcontrol/validation.ValidateGroupSubject
func flowSubject(at check.Field, s *flowcontrolv1.Subject) {
	if !slices.Contains(subjectKinds, s.Kind) {
		check.Supported(at.Child("kind"), s.Kind, subjectKinds...)
		return
	}
	for _, part := range [...]struct {
		kind  flowcontrolv1.SubjectKind
		name  string
		set   bool
		check func(at check.Field)
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(at check.Field) { flowAccount(at, s.ServiceAccount) }},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil, func(at check.Field) { check.Required(at.Child("name"), s.User.Name) }},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil, func(at check.Field) { check.Required(at.Child("name"), s.Group.Name) }},
	} {
		switch at := at.Child(part.name); {
		case part.kind == s.Kind && part.set:
			part.check(at)
		case part.kind == s.Kind:
			at.Required(fmt.Sprintf("%s is required when subject kind is '%s'", part.name, part.kind))
		case part.set:
			at.Forbidden(fmt.Sprintf("%s is forbidden when subject kind is not '%s'", part.name, part.kind))
		}
	}
}

//upstream:pkg/apis/flowcontrol/validation.ValidateServiceAccountSubject
func flowAccount(at check.Field, a *flowcontrolv1.ServiceAccountSubject) {
	check.Required(at.Child("name"), a.Name)
	if a.Name != flowcontrolv1.NameAll {
		check.IfSet(at.Child("name"), a.Name, check.DNSName)
	}
	if a.Namespace == "" {
		at.Child("namespace").Required("must specify namespace for service account")
	}
	check.IfSet(at.Child("namespace"), a.Namespace, check.DNSLabel)
}

//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaResourcePolicyRule
func flowResources(at check.Field, r *flowcontrolv1.ResourcePolicyRule) {
	namespaces := at.Child("namespaces")
	flowVerbs(at.Child("verbs"), r.Verbs)
	wildcards(at.Child("apiGroups"), r.APIGroups, "resource rules must supply at least one api group", "api groups")
	wildcards(at.Child("resources"), r.Resources, "resource rules must supply at least one resource", "resources")
	if len(r.Namespaces) == 0 && r.ClusterScope {
		return
	}
	wildcards(namespaces, r.Namespaces, "resource rules that are not cluster scoped must supply at least one namespace", "namespaces")
	if slices.Contains(r.Namespaces, flowcontrolv1.NamespaceEvery) {
		return
	}
	for i, n := range r.Namespaces {
		for _, m := range fieldrules.NameIsLabel(n, false) {
			namespaces.Index(i).Invalid(n, "each member of this list must be '*' or a DNS-1123 label; "+m)
		}
	}
}

// flowVerbsOf are the verbs of requests, in order.
//
//upstream:pkg/apis/flowcontrol/validation.supportedVerbs
var flowVerbsOf = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func flowVerbs(at check.Field, verbs []string) {
	wildcards(at, verbs, "verbs must contain at least one value", "verbs")
	unknown := func(v string) bool { return !slices.Contains(flowVerbsOf, v) }
	if !slices.Contains(verbs, flowcontrolv1.VerbAll) && slices.ContainsFunc(verbs, unknown) {
		at.NotSupported(verbs, flowVerbsOf...)
	}
}

// wildcards checks that a list is not empty, and that "*" has no elements beside it.
//
//upstream:pkg/apis/flowcontrol/validation.hasWildcard
func wildcards(at check.Field, list []string, missing, others string) {
	switch {
	case len(list) == 0:
		at.Required(missing)
	case len(list) > 1 && slices.Contains(list, "*"):
		at.Invalid(list, "if '*' is present, must not specify other "+others)
	}
}

//upstream:pkg/apis/flowcontrol/validation.ValidateFlowSchemaNonResourcePolicyRule
func flowURLs(at check.Field, r *flowcontrolv1.NonResourcePolicyRule) {
	urls := at.Child("nonResourceURLs")
	flowVerbs(at.Child("verbs"), r.Verbs)
	wildcards(urls, r.NonResourceURLs, "nonResourceURLs must contain at least one value", "non-resource URLs")
	if slices.Contains(r.NonResourceURLs, "*") {
		return
	}
	for i, u := range r.NonResourceURLs {
		if why := flowURL(u); why != "" {
			urls.Index(i).Invalid(u, why)
		}
	}
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
