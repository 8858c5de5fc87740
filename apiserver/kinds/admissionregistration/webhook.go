// Package admissionregistration describes the kinds of the admissionregistration.k8s.io API group.
package admissionregistration

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/util/webhook"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
		Validate: func(c *admissionv1.ValidatingWebhookConfiguration) (errs field.ErrorList) {
			validateWebhooks(check.Object(&errs).Child("webhooks"), len(c.Webhooks), func(i int) webhook { return ofValidating(&c.Webhooks[i]) })
			return errs
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
		Validate: func(c *admissionv1.MutatingWebhookConfiguration) (errs field.ErrorList) {
			list := check.Object(&errs).Child("webhooks")
			validateWebhooks(list, len(c.Webhooks), func(i int) webhook { return ofMutating(&c.Webhooks[i]) })
			for i := range c.Webhooks {
				check.OptionalOneOf(list.Index(i).Child("reinvocationPolicy"), c.Webhooks[i].ReinvocationPolicy,
					admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
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

// validateWebhooks checks the webhooks of a configuration of either kind.
//
//upstream:pkg/apis/admissionregistration/validation.validateValidatingWebhookConfiguration
//upstream:pkg/apis/admissionregistration/validation.validateMutatingWebhookConfiguration
func validateWebhooks(list check.Field, n int, at func(int) webhook) {
	var names fieldrules.Seen[string]
	for i := range n {
		h := at(i)
		validateWebhook(list.Index(i), h)
		if h.name != "" && !names.Add(h.name) {
			list.Index(i).Child("name").Duplicate(h.name)
		}
	}
}

// validateWebhook checks a webhook of either kind of configuration.
//
//upstream:pkg/apis/admissionregistration/validation.validateValidatingWebhook
//upstream:pkg/apis/admissionregistration/validation.validateMutatingWebhook
func validateWebhook(at check.Field, h webhook) {
	name, rules := at.Child("name"), at.Child("rules")
	name.Report(validation.IsFullyQualifiedName(name.Path.Field(), h.name)...)
	reviewVersions(at.Child("admissionReviewVersions"), h.reviews)
	for i := range h.rules {
		webhookRule(rules.Index(i), &h.rules[i])
	}
	check.OptionalOneOf(at.Child("failurePolicy"), *h.failure, admissionv1.Fail, admissionv1.Ignore)
	check.OptionalOneOf(at.Child("matchPolicy"), *h.match, admissionv1.Equivalent, admissionv1.Exact)
	if h.sideEffects == nil {
		at.Child("sideEffects").Required("must specify one of None, NoneOnDryRun")
	}
	check.OptionalOneOf(at.Child("sideEffects"), h.sideEffects, admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun)
	if t := *h.timeout; t != nil && (*t < 1 || *t > 30) {
		at.Child("timeoutSeconds").Invalid(*t, "the timeout value must be between 1 and 30 seconds")
	}
	check.LabelSelector(at.Child("namespaceSelector"), *h.namespaces)
	check.LabelSelector(at.Child("objectSelector"), *h.objects)
	matchConditions(at.Child("matchConditions"), h.matchConditions, false)
	webhookClient(at.Child("clientConfig"), h.client)
}

//upstream:pkg/apis/admissionregistration/validation.validateAdmissionReviewVersions
func reviewVersions(list check.Field, versions []string) {
	if len(versions) == 0 {
		list.Required("must specify one of v1, v1beta1")
		return
	}
	var seen fieldrules.Seen[string]
	for i, v := range versions {
		if seen.Add(v) {
			check.Valid(list.Index(i), v, validation.IsDNS1035Label)
		} else {
			list.Index(i).Invalid(v, "duplicate version")
		}
	}
	if !seen.Has("v1") && !seen.Has("v1beta1") {
		list.Invalid(versions, "must include at least one of v1, v1beta1")
	}
}

// webhookRule checks the operations, groups, versions and resources of a rule.
//
//upstream:pkg/apis/admissionregistration/validation.validateRuleWithOperations
//upstream:pkg/apis/admissionregistration/validation.validateRule
func webhookRule(at check.Field, r *admissionv1.RuleWithOperations) {
	operations, versions, resources := at.Child("operations"), at.Child("apiVersions"), at.Child("resources")
	for i := range r.Operations {
		check.Supported(operations.Index(i), r.Operations[i], admissionv1.OperationAll, admissionv1.Connect,
			admissionv1.Create, admissionv1.Delete, admissionv1.Update)
	}
	someOrAll(operations, r.Operations, "operations")
	someOrAll(at.Child("apiGroups"), r.APIGroups, "API groups")
	someOrAll(versions, r.APIVersions, "API versions")
	noneEmpty(versions, r.APIVersions)
	if len(r.Resources) == 0 {
		resources.Required("")
	}
	noneEmpty(resources, r.Resources)
	resourceWildcards(resources, r.Resources)
	check.OptionalOneOf(at.Child("scope"), r.Scope, admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)
}

// someOrAll checks that a list has some elements, or only "*".
func someOrAll[S ~string](at check.Field, list []S, what string) {
	if len(list) == 0 {
		at.Required("")
	}
	if len(list) > 1 && slices.Contains(list, "*") {
		at.Invalid(list, "if '*' is present, must not specify other "+what)
	}
}

func noneEmpty(at check.Field, list []string) {
	for i, s := range list {
		check.Required(at.Index(i), s)
	}
}

// resourceWildcards checks that no wildcard in the list includes another resource of the list.
//
//upstream:pkg/apis/admissionregistration/validation.validateResources
//upstream:pkg/apis/admissionregistration/validation.validateResourcesNoSubResources
func resourceWildcards(list check.Field, resources []string) {
	whole := false // a resource without a subresource is named
	var before fieldrules.Seen[string]
	for i, r := range resources {
		name, sub, ok := strings.Cut(r, "/")
		if !ok {
			whole = r != "*"
			before.Add(r)
			continue
		}
		for _, all := range [...]string{name + "/*", "*/" + sub} {
			if before.Has(all) {
				list.Index(i).Invalidf(r, "if '%s' is present, must not specify %s", all, r)
			}
		}
		before.Add(r)
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		list.Invalid(resources, "if '*/*' is present, must not specify other resources")
	}
	if whole && slices.Contains(resources, "*") {
		list.Invalid(resources, "if '*' is present, must not specify other resources without subresources")
	}
}

// webhookClient checks that a webhook has either a URL or a Service.
//
//upstream:k8s.io/apiserver/pkg/util/webhook.ValidateWebhookURL
//upstream:k8s.io/apiserver/pkg/util/webhook.ValidateWebhookService
func webhookClient(at check.Field, c *admissionv1.WebhookClientConfig) {
	url, service := at.Child("url"), at.Child("service")
	switch s := c.Service; {
	case (c.URL == nil) == (s == nil):
		at.Required("exactly one of url or service is required")
	case c.URL != nil:
		url.Report(upstream.ValidateWebhookURL(url.Path.Field(), *c.URL, true)...)
	default:
		port := webhookPort
		if s.Port != nil {
			port = *s.Port
		}
		// kube-apiserver confuses the name with the namespace in the errors.
		service.Report(upstream.ValidateWebhookService(service.Path.Field(), s.Name, s.Namespace, s.Path, port)...)
	}
}
