package upstream

import (
	"context"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"

	"flyball.dev/apiserver/admission/stored"
)

// reviews are the kinds that are not stored. No webhook or policy is asked about them, since a
// server that cannot ask who a user is could not be repaired.
var reviews = []schema.GroupResource{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
	{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
}

// webhooks calls the webhooks of all configurations of one kind, T, by upstream's plugin, P. That
// is made when the first configuration exists, since its CEL environment is costly. A change of a
// configuration takes effect with the next request.
type webhooks[T runtime.Object, P any] struct {
	*admission.Handler
	configurations *stored.Informer[T]
	plugin         func() (P, error)
}

// enabled returns upstream's plugin, or false if there is no configuration.
func (w *webhooks[T, P]) enabled(ctx context.Context) (plugin P, ok bool, err error) {
	if ok, err = w.configurations.Sync(ctx); err != nil {
		return plugin, false, errors.NewInternalError(err)
	}
	if !ok {
		return plugin, false, nil
	}
	if plugin, err = w.plugin(); err != nil {
		return plugin, false, errors.NewInternalError(err)
	}
	return plugin, true, nil
}

// mutatingWebhooks is the plugin MutatingAdmissionWebhook.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/webhook/mutating.Plugin
type mutatingWebhooks struct {
	webhooks[*admissionv1.MutatingWebhookConfiguration, *mutating.Plugin]
}

// NewMutatingWebhooks returns the plugin MutatingAdmissionWebhook.
func NewMutatingWebhooks(e Environment) admission.Interface {
	configurations := stored.NewInformer[*admissionv1.MutatingWebhookConfiguration](e, admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"))
	m := &mutatingWebhooks{}
	m.Handler, m.configurations = webhookHandler(), configurations
	m.plugin = sync.OnceValues(func() (*mutating.Plugin, error) {
		p, err := mutating.NewMutatingWebhook(nil)
		if err != nil {
			return nil, err
		}
		return p, initialize(e, p.Webhook, configurations, nil)
	})
	return m
}

// Admit implements [admission.MutationInterface].
func (m *mutatingWebhooks) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, ok, err := m.enabled(ctx)
	if !ok || err != nil {
		return err
	}
	return Measure(ctx, a, StepAdmit, mutating.PluginName, func() error { return plugin.Admit(ctx, a, o) })
}

// validatingWebhooks is the plugin ValidatingAdmissionWebhook.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/webhook/validating.Plugin
type validatingWebhooks struct {
	webhooks[*admissionv1.ValidatingWebhookConfiguration, *validating.Plugin]
}

// NewValidatingWebhooks returns the plugin ValidatingAdmissionWebhook.
func NewValidatingWebhooks(e Environment) admission.Interface {
	configurations := stored.NewInformer[*admissionv1.ValidatingWebhookConfiguration](e, admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"))
	v := &validatingWebhooks{}
	v.Handler, v.configurations = webhookHandler(), configurations
	v.plugin = sync.OnceValues(func() (*validating.Plugin, error) {
		p, err := validating.NewValidatingAdmissionWebhook(nil)
		if err != nil {
			return nil, err
		}
		return p, initialize(e, p.Webhook, nil, configurations)
	})
	return v
}

// Validate implements [admission.ValidationInterface].
func (v *validatingWebhooks) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, ok, err := v.enabled(ctx)
	if !ok || err != nil {
		return err
	}
	return Measure(ctx, a, StepValidate, validating.PluginName, func() error { return plugin.Validate(ctx, a, o) })
}

func webhookHandler() *admission.Handler {
	return admission.NewHandler(admission.Connect, admission.Create, admission.Delete, admission.Update)
}

// initialize connects upstream's plugin to the server. One of the informers is nil. It is not a method, because a package
// that has an Environment would compile all methods of the informers that the plugin refers to.
func initialize(e Environment, w *generic.Webhook, mutating, validating cache.SharedIndexInformer) error {
	namespaces := stored.NewNamespaces(e)
	w.SetExternalKubeClientSet(newClientset(namespaces))
	w.SetExternalKubeInformerFactory(newInformerFactory(namespaces, mutating, validating))
	w.SetUnconditionalAuthorizer(e.Authorizer)
	w.SetServiceResolver(e.ServiceResolver)
	w.SetAuthenticationInfoResolverWrapper(e.WebhookAuthentication)
	w.SetExcludedAdmissionResources(reviews)
	w.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	return w.ValidateInitialization()
}
