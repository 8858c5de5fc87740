// Package admissionregistration describes the kinds of the admissionregistration.k8s.io API group.
package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/util/webhook"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

var webhooksColumn = []metav1.TableColumnDefinition{columns.Column("Webhooks", "integer",
	"How many webhooks the configuration has.")}

// ValidatingWebhooks describes the kind ValidatingWebhookConfiguration.
//
//upstream:pkg/registry/admissionregistration/validatingwebhookconfiguration.validatingWebhookConfigurationStrategy
//upstream:pkg/apis/admissionregistration/v1.SetDefaults_ValidatingWebhook
//upstream:pkg/apis/admissionregistration/validation.ValidateValidatingWebhookConfigurationUpdate
//upstream:pkg/printers/internalversion.printValidatingWebhook
//upstream:pkg/registry/admissionregistration/validatingwebhookconfiguration/storage.REST.Categories
func ValidatingWebhooks() kinds.Kind {
	return kinds.Of[*admissionv1.ValidatingWebhookConfiguration]{
		Type: &admissionv1.ValidatingWebhookConfiguration{}, List: &admissionv1.ValidatingWebhookConfigurationList{},
		Plural: "validatingwebhookconfigurations", Categories: []string{"api-extensions"},
		AnyFinalizers: true,
		Cluster:       true, Generation: true, NoUnconditionalUpdate: true,
		Name: fieldrules.NameIsSubdomain,
		Default: func(c *admissionv1.ValidatingWebhookConfiguration) {
			for i := range c.Webhooks {
				defaultWebhook(ofValidating(&c.Webhooks[i]))
			}
		},
		Validate: func(c *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
			return validateWebhooks(len(c.Webhooks), func(i int) webhook { return ofValidating(&c.Webhooks[i]) })
		},
		ValidateCreate: func(c *admissionv1.ValidatingWebhookConfiguration) field.ErrorList { return notStatic(c.Name) },
		Warnings: func(c, old *admissionv1.ValidatingWebhookConfiguration) []string {
			warnings := staticWarnings(c.Name, old == nil)
			for i := range c.Webhooks {
				warnings = append(warnings, ruleWarnings(c.Webhooks[i].Rules, field.NewPath("webhooks").Index(i).Child("rules"))...)
			}
			return warnings
		},
		Columns: webhooksColumn,
		Row:     func(c *admissionv1.ValidatingWebhookConfiguration) []any { return []any{int64(len(c.Webhooks))} },
	}
}

// MutatingWebhooks describes the kind MutatingWebhookConfiguration.
//
//upstream:pkg/registry/admissionregistration/mutatingwebhookconfiguration.mutatingWebhookConfigurationStrategy
//upstream:pkg/apis/admissionregistration/v1.SetDefaults_MutatingWebhook
//upstream:pkg/apis/admissionregistration/validation.ValidateMutatingWebhookConfigurationUpdate
//upstream:pkg/printers/internalversion.printMutatingWebhook
//upstream:pkg/registry/admissionregistration/mutatingwebhookconfiguration/storage.REST.Categories
func MutatingWebhooks() kinds.Kind {
	return kinds.Of[*admissionv1.MutatingWebhookConfiguration]{
		Type: &admissionv1.MutatingWebhookConfiguration{}, List: &admissionv1.MutatingWebhookConfigurationList{},
		Plural: "mutatingwebhookconfigurations", Categories: []string{"api-extensions"},
		AnyFinalizers: true,
		Cluster:       true, Generation: true, NoUnconditionalUpdate: true,
		Name: fieldrules.NameIsSubdomain,
		Default: func(c *admissionv1.MutatingWebhookConfiguration) {
			for i := range c.Webhooks {
				defaultWebhook(ofMutating(&c.Webhooks[i]))
				fieldrules.DefaultPointer(&c.Webhooks[i].ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
			}
		},
		Validate: func(c *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
			errs := validateWebhooks(len(c.Webhooks), func(i int) webhook { return ofMutating(&c.Webhooks[i]) })
			list := fieldrules.Root.Child("webhooks")
			for i := range c.Webhooks {
				at := list.Index(i)
				errs = append(errs, fieldrules.OptionalOneOf(c.Webhooks[i].ReinvocationPolicy, &at,
					"reinvocationPolicy", admissionv1.NeverReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy)...)
			}
			return errs
		},
		ValidateCreate: func(c *admissionv1.MutatingWebhookConfiguration) field.ErrorList { return notStatic(c.Name) },
		Warnings: func(c, old *admissionv1.MutatingWebhookConfiguration) []string {
			warnings := staticWarnings(c.Name, old == nil)
			for i := range c.Webhooks {
				warnings = append(warnings, ruleWarnings(c.Webhooks[i].Rules, field.NewPath("webhooks").Index(i).Child("rules"))...)
			}
			return warnings
		},
		Columns: webhooksColumn,
		Row:     func(c *admissionv1.MutatingWebhookConfiguration) []any { return []any{int64(len(c.Webhooks))} },
	}
}

// webhook has pointers to the fields of a validating or a mutating webhook.
type webhook struct {
	name            string
	client          *admissionv1.WebhookClientConfig
	rules           []admissionv1.RuleWithOperations
	failure         **admissionv1.FailurePolicyType
	match           **admissionv1.MatchPolicyType
	namespaces      **metav1.LabelSelector
	objects         **metav1.LabelSelector
	sideEffects     *admissionv1.SideEffectClass
	timeout         **int32
	reviews         []string
	matchConditions []admissionv1.MatchCondition
}

func ofValidating(w *admissionv1.ValidatingWebhook) webhook {
	return webhook{w.Name, &w.ClientConfig, w.Rules, &w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector,
		&w.ObjectSelector, w.SideEffects, &w.TimeoutSeconds, w.AdmissionReviewVersions, w.MatchConditions}
}

func ofMutating(w *admissionv1.MutatingWebhook) webhook {
	return webhook{w.Name, &w.ClientConfig, w.Rules, &w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector,
		&w.ObjectSelector, w.SideEffects, &w.TimeoutSeconds, w.AdmissionReviewVersions, w.MatchConditions}
}

// Defaults of webhooks.
const (
	webhookTimeout int32 = 10
	webhookPort    int32 = 443
)

//upstream:pkg/apis/admissionregistration/v1.SetDefaults_ValidatingWebhook
//upstream:pkg/apis/admissionregistration/v1.SetDefaults_MutatingWebhook
//upstream:pkg/apis/admissionregistration/v1.SetDefaults_Rule
//upstream:pkg/apis/admissionregistration/v1.SetDefaults_ServiceReference
func defaultWebhook(h webhook) {
	fieldrules.DefaultPointer(h.failure, admissionv1.Fail)
	fieldrules.DefaultPointer(h.match, admissionv1.Equivalent)
	fieldrules.DefaultPointer(h.namespaces, metav1.LabelSelector{})
	fieldrules.DefaultPointer(h.objects, metav1.LabelSelector{})
	fieldrules.DefaultPointer(h.timeout, webhookTimeout)
	for i := range h.rules {
		fieldrules.DefaultPointer(&h.rules[i].Scope, admissionv1.AllScopes)
	}
	if s := h.client.Service; s != nil {
		fieldrules.DefaultPointer(&s.Port, webhookPort)
	}
}

// validateWebhook checks a webhook of either kind.
//
//upstream:pkg/apis/admissionregistration/validation.validateValidatingWebhookConfiguration
//upstream:pkg/apis/admissionregistration/validation.validateMutatingWebhookConfiguration
func validateWebhooks(n int, at func(int) webhook) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Root.Child("webhooks")
	names := map[string]bool{}
	for i := range n {
		h, fldPath := at(i), list.Index(i)
		errs = append(errs, validateWebhook(h, &fldPath)...)
		if h.name != "" && names[h.name] {
			errs = append(errs, field.Duplicate(fldPath.ChildField("name"), h.name))
		}
		names[h.name] = true
	}
	return errs
}

// validateWebhook checks a webhook of either kind of configuration.
//
//upstream:pkg/apis/admissionregistration/validation.validateValidatingWebhook
//upstream:pkg/apis/admissionregistration/validation.validateMutatingWebhook
func validateWebhook(h webhook, fldPath *fieldrules.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(fldPath.ChildField("name"), h.name)
	errs = append(errs, reviewVersions(h.reviews, fldPath)...)
	list := fldPath.Child("rules")
	for i := range h.rules {
		at := list.Index(i)
		errs = append(errs, webhookRule(&h.rules[i], &at)...)
	}
	errs = append(errs, fieldrules.OptionalOneOf(*h.failure, fldPath, "failurePolicy", admissionv1.Fail,
		admissionv1.Ignore)...)
	errs = append(errs, fieldrules.OptionalOneOf(*h.match, fldPath, "matchPolicy", admissionv1.Equivalent,
		admissionv1.Exact)...)
	allowed := []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
	if h.sideEffects == nil {
		errs = append(errs, field.Required(fldPath.ChildField("sideEffects"), "must specify one of None, NoneOnDryRun"))
	} else {
		errs = append(errs, fieldrules.Supported(*h.sideEffects, fldPath, "sideEffects", allowed...)...)
	}
	if t := *h.timeout; t != nil && (*t < 1 || *t > 30) {
		errs = append(errs, field.Invalid(fldPath.ChildField("timeoutSeconds"), *t,
			"the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, fieldrules.LabelSelector(*h.namespaces, fldPath, "namespaceSelector")...)
	errs = append(errs, fieldrules.LabelSelector(*h.objects, fldPath, "objectSelector")...)
	errs = append(errs, matchConditions(h.matchConditions, false, fldPath)...)
	at := fldPath.Child("clientConfig")
	return append(errs, webhookClient(h.client, &at)...)
}

//upstream:pkg/apis/admissionregistration/validation.validateAdmissionReviewVersions
func reviewVersions(versions []string, fldPath *fieldrules.Path) field.ErrorList {
	list := fldPath.Child("admissionReviewVersions")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(list.Field(), fmt.Sprintf("must specify one of %s", "v1, v1beta1"))}
	}
	var errs field.ErrorList
	known := false
	var seen fieldrules.Seen[string]
	for i, v := range versions {
		at := list.Index(i)
		if !seen.Add(v) {
			errs = append(errs, field.Invalid(at.Field(), v, "duplicate version"))
			continue
		}
		errs = append(errs, fieldrules.Invalid(validation.IsDNS1035Label(v), v, &at, "")...)
		known = known || v == "v1" || v == "v1beta1"
	}
	if !known {
		errs = append(errs, field.Invalid(list.Field(), versions, "must include at least one of v1, v1beta1"))
	}
	return errs
}

// webhookRule checks the operations, groups, versions and resources of a rule.
//
//upstream:pkg/apis/admissionregistration/validation.validateRuleWithOperations
//upstream:pkg/apis/admissionregistration/validation.validateRule
func webhookRule(r *admissionv1.RuleWithOperations, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Operations) == 0 {
		errs = append(errs, field.Required(fldPath.ChildField("operations"), ""))
	}
	operations := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete,
		admissionv1.Connect, admissionv1.OperationAll}
	for i, o := range r.Operations {
		if !slices.Contains(operations, o) {
			errs = append(errs, field.NotSupported(fldPath.ChildField("operations").Index(i), o,
				slices.Sorted(slices.Values(operations))))
		}
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionv1.OperationAll) {
		errs = append(errs, field.Invalid(fldPath.ChildField("operations"), r.Operations,
			"if '*' is present, must not specify other operations"))
	}
	for _, part := range []struct {
		name string
		list []string
		all  string // what "*" means; resources can have it beside others
	}{{"apiGroups", r.APIGroups, "API groups"}, {"apiVersions", r.APIVersions, "API versions"},
		{"resources", r.Resources, ""}} {
		if len(part.list) == 0 {
			errs = append(errs, field.Required(fldPath.ChildField(part.name), ""))
		}
		if part.all != "" && len(part.list) > 1 && slices.Contains(part.list, "*") {
			errs = append(errs, field.Invalid(fldPath.ChildField(part.name), part.list,
				"if '*' is present, must not specify other "+part.all))
		}
		for i, v := range part.list {
			if v == "" && part.name != "apiGroups" {
				errs = append(errs, field.Required(fldPath.ChildField(part.name).Index(i), ""))
			}
		}
	}
	errs = append(errs, resourceWildcards(r.Resources, fldPath)...)
	return append(errs, fieldrules.OptionalOneOf(r.Scope, fldPath, "scope", admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)...)
}

// resourceWildcards checks that no wildcard in the list includes another resource of the list.
//
//upstream:pkg/apis/admissionregistration/validation.validateResources
//upstream:pkg/apis/admissionregistration/validation.validateResourcesNoSubResources
func resourceWildcards(resources []string, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	list := fldPath.Child("resources")
	whole := false // a resource without a subresource is named
	var before fieldrules.Seen[string]
	for i, r := range resources {
		name, sub, ok := strings.Cut(r, "/")
		if !ok {
			whole = r != "*"
			before.Add(r)
			continue
		}
		at := list.Index(i)
		if all := name + "/*"; before.Has(all) {
			errs = append(errs, field.Invalid(at.Field(), r, fmt.Sprintf("if '%s' is present, must not specify %s", all, r)))
		}
		if all := "*/" + sub; before.Has(all) {
			errs = append(errs, field.Invalid(at.Field(), r, fmt.Sprintf("if '%s' is present, must not specify %s", all, r)))
		}
		before.Add(r)
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(list.Field(), resources, "if '*/*' is present, must not specify other resources"))
	}
	if whole && slices.Contains(resources, "*") {
		errs = append(errs, field.Invalid(list.Field(), resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

// webhookClient checks that a webhook has either a URL or a Service.
//
//upstream:k8s.io/apiserver/pkg/util/webhook.ValidateWebhookURL
//upstream:k8s.io/apiserver/pkg/util/webhook.ValidateWebhookService
func webhookClient(c *admissionv1.WebhookClientConfig, fldPath *fieldrules.Path) field.ErrorList {
	switch s := c.Service; {
	case (c.URL == nil) == (s == nil):
		return field.ErrorList{field.Required(fldPath.Field(), "exactly one of url or service is required")}
	case c.URL != nil:
		return upstream.ValidateWebhookURL(fldPath.ChildField("url"), *c.URL, true)
	default:
		port := webhookPort
		if s.Port != nil {
			port = *s.Port
		}
		// kube-apiserver confuses the name with the namespace in the errors.
		return upstream.ValidateWebhookService(fldPath.ChildField("service"), s.Name, s.Namespace, s.Path, port)
	}
}
