// Package v1 has the webhooks of Proxies, which are for version v1 alone: the API server converts
// objects of other versions to it before it calls them, and back afterwards.
package v1

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/webhook/admission"
	netv1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/internal/annotations"
)

// SetupProxyWebhookWithManager registers the webhooks with the manager: with the webhooks of this package
// also the conversion webhook, since the types of the versions in the scheme are a hub and spokes.
func SetupProxyWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &netv1.Proxy{}).
		WithDefaulter(&ProxyDefaulter{}).
		WithValidator(&ProxyValidator{}).
		Complete()
}

// +kubebuilder:webhook:path=/mutate-net-example-com-v1-proxy,mutating=true,failurePolicy=fail,sideEffects=None,groups=net.example.com,resources=proxies,verbs=create;update,versions=v1,name=mproxy-v1.kb.io,admissionReviewVersions=v1

// ProxyDefaulter sets defaults of Proxies.
type ProxyDefaulter struct{}

var _ admission.Defaulter[*netv1.Proxy] = &ProxyDefaulter{}

// Default sets the fields that are not set. It does not replace retries that could not be converted:
// their annotation is for the validator to refuse. It forgets the balancing of older versions when
// another one than its replacement is set: that choice is newer.
func (*ProxyDefaulter) Default(_ context.Context, proxy *netv1.Proxy) error {
	retries := proxy.Spec.Retries
	proxy.Spec.SetDefaults()
	if _, unconverted := proxy.Annotations[netv1.RetriesAnnotation]; unconverted {
		proxy.Spec.Retries = retries
	}
	if proxy.Spec.Balancing != netv1.BalancingRoundRobin {
		annotations.Take(proxy, netv1.BalancingAnnotation)
	}
	return nil
}

// +kubebuilder:webhook:path=/validate-net-example-com-v1-proxy,mutating=false,failurePolicy=fail,sideEffects=None,groups=net.example.com,resources=proxies,verbs=create;update,versions=v1,name=vproxy-v1.kb.io,admissionReviewVersions=v1

// ProxyValidator validates Proxies. The schema of v1 is not enough: a request is validated against
// the schema of its own version alone, and the older ones are laxer.
type ProxyValidator struct{}

var _ admission.Validator[*netv1.Proxy] = &ProxyValidator{}

// ValidateCreate validates a new Proxy.
func (*ProxyValidator) ValidateCreate(ctx context.Context, proxy *netv1.Proxy) (admission.Warnings, error) {
	paths := pathsOf(ctx)
	return warnings(proxy, paths), invalid(proxy, validate(proxy, paths))
}

// ValidateUpdate validates a change of a Proxy. What was invalid before and is the same still is
// accepted: a Proxy that was written before there was a rule can be labelled, migrated to another
// storage version, and freed of its finalizers.
func (*ProxyValidator) ValidateUpdate(ctx context.Context, old, proxy *netv1.Proxy) (admission.Warnings, error) {
	paths := pathsOf(ctx)
	before := validate(old, paths)
	all := slices.DeleteFunc(validate(proxy, paths), func(e *field.Error) bool {
		return slices.ContainsFunc(before, func(b *field.Error) bool { return b.Error() == e.Error() })
	})
	all = append(all, apivalidation.ValidateImmutableField(proxy.Spec.Host, old.Spec.Host, paths.host)...)
	return warnings(proxy, paths), invalid(proxy, all)
}

// ValidateDelete accepts all deletions.
func (*ProxyValidator) ValidateDelete(context.Context, *netv1.Proxy) (admission.Warnings, error) {
	return nil, nil
}

// invalid returns the API error for errors of fields, or nil if there are none.
func invalid(proxy *netv1.Proxy, all field.ErrorList) error {
	if len(all) == 0 {
		return nil
	}
	return apierrors.NewInvalid(netv1.GroupVersion.WithKind("Proxy").GroupKind(), proxy.Name, all)
}

// warnings returns what the user should know although it is not wrong.
func warnings(proxy *netv1.Proxy, paths paths) admission.Warnings {
	if removed := proxy.Annotations[netv1.BalancingAnnotation]; removed != "" {
		return admission.Warnings{paths.balancing.String() + ": " + removed + " is not available any more, " +
			string(proxy.Spec.Balancing) + " is used"}
	}
	return nil
}

// validate validates a Proxy by itself.
func validate(proxy *netv1.Proxy, paths paths) field.ErrorList {
	var all field.ErrorList
	spec := &proxy.Spec
	if limit := validation.DNS1123SubdomainMaxLength - len(netv1.ConfigSuffix); len(proxy.Name) > limit {
		all = append(all, field.TooLong(field.NewPath("metadata", "name"), proxy.Name, limit)) // for the ConfigMap
	}
	for _, problem := range validation.IsDNS1123Subdomain(spec.Host) {
		all = append(all, field.Invalid(paths.host, spec.Host, problem))
	}
	if spec.Port != nil {
		for _, problem := range validation.IsValidPortNum(int(*spec.Port)) {
			all = append(all, field.Invalid(paths.port, *spec.Port, problem))
		}
	}
	if spec.MaxConnections != nil && *spec.MaxConnections < 1 {
		all = append(all, field.Invalid(paths.maxConnections, *spec.MaxConnections, "must be greater than or equal to 1"))
	}
	if r := spec.Retries; r != nil {
		for _, problem := range validation.IsInRange(int(r.Attempts), 0, 10) {
			all = append(all, field.Invalid(paths.retries.Child("attempts"), r.Attempts, problem))
		}
		if r.Timeout != nil && r.Timeout.Duration <= 0 {
			all = append(all, field.Invalid(paths.retries.Child("timeout"), r.Timeout.Duration.String(), "must be greater than 0"))
		}
	}
	// In the hub, the annotation is one that could not be converted.
	if value, ok := proxy.Annotations[netv1.RetriesAnnotation]; ok {
		all = append(all, field.Invalid(field.NewPath("metadata", "annotations").Key(netv1.RetriesAnnotation), value,
			"must be the retries of version v1 as JSON"))
	}
	return all
}
