package upstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"

	"flyball.dev/apiserver/admission/stored"
)

// policyKinds are the kinds that configure admission by policies. Policies do not apply to them, so
// that no policy can prevent its own removal.
var policyKinds = []schema.GroupResource{
	admissionv1.Resource("validatingadmissionpolicies"), admissionv1.Resource("validatingadmissionpolicybindings"),
	admissionv1.Resource("mutatingadmissionpolicies"), admissionv1.Resource("mutatingadmissionpolicybindings"),
}

// PoliciesApply reports whether policies may apply to a resource.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/policy/generic.Plugin.isExcludedFromAPIHooks
func PoliciesApply(r schema.GroupResource) bool {
	return !slices.Contains(policyKinds, r) && !slices.Contains(reviews, r)
}

// policies evaluates the policies of one kind by upstream's dispatcher. P are the policies, B their
// bindings, and E what a policy is compiled to. Upstream's source of policies has goroutines and is
// up to a second late; with this one, a change takes effect with the next request.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/policy/generic.policySource
type policies[P, B object, E any] struct {
	*admission.Handler
	environment Environment
	policies    *stored.Informer[P]
	bindings    *stored.Informer[B]
	accessor    func(P) generic.PolicyAccessor
	policyOf    func(B) string
	compile     func(P) E
	dispatcher  generic.Dispatcher[generic.PolicyHook[P, B, E]]

	mu       sync.Mutex
	compiled map[string]compiled[E] // by name of the policy
}

// object is a policy or a binding.
type object interface {
	runtime.Object
	metav1.Object
}

// compiled is a compiled version of a policy.
type compiled[E any] struct {
	version   [2]string
	evaluator E
}

// newPolicies returns the policies of a resource, and their bindings. The caller sets what depends on
// the kind: accessor, policyOf and dispatcher.
func newPolicies[P, B object, E any](e Environment, h *admission.Handler, resource string, compile func(P) E) policies[P, B, E] {
	bindings := strings.TrimSuffix(resource, "policies") + "policybindings"
	return policies[P, B, E]{
		Handler:     h,
		environment: e,
		policies:    stored.NewInformer[P](e, admissionv1.SchemeGroupVersion.WithResource(resource)),
		bindings:    stored.NewInformer[B](e, admissionv1.SchemeGroupVersion.WithResource(bindings)),
		compile:     compile,
		compiled:    map[string]compiled[E]{},
	}
}

// dispatch evaluates the policies that apply to a request, as the step of a plugin. [PoliciesApply] is true for the resource.
func (p *policies[P, B, E]) dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, step, plugin string) error {
	some, err := p.bindings.Sync(ctx)
	if err == nil && some {
		some, err = p.policies.Sync(ctx)
	}
	if err != nil {
		return errors.NewInternalError(err)
	}
	if !some {
		return nil
	}
	return Measure(ctx, a, step, plugin, func() error { return p.dispatcher.Dispatch(ctx, a, o, p.hooks()) })
}

// hooks returns the policies that have bindings, in the order of their names.
func (p *policies[P, B, E]) hooks() []generic.PolicyHook[P, B, E] {
	bindings := map[string][]B{}
	for _, b := range p.bindings.In("") {
		bindings[p.policyOf(b)] = append(bindings[p.policyOf(b)], b)
	}
	var hooks []generic.PolicyHook[P, B, E]
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.compiled {
		if bindings[name] == nil {
			delete(p.compiled, name)
		}
	}
	for _, policy := range p.policies.In("") {
		if bindings[policy.GetName()] == nil {
			continue
		}
		hook := generic.PolicyHook[P, B, E]{Policy: policy, Bindings: bindings[policy.GetName()], Evaluator: p.evaluator(policy)}
		if kind := p.accessor(policy).GetParamKind(); kind != nil {
			p.setParams(&hook, kind)
		}
		hooks = append(hooks, hook)
	}
	return hooks
}

// evaluator returns the compiled policy. The lock is held.
func (p *policies[P, B, E]) evaluator(policy P) E {
	version := stored.VersionOf(policy)
	if c, ok := p.compiled[policy.GetName()]; ok && c.version == version {
		return c.evaluator
	}
	e := p.compile(policy)
	p.compiled[policy.GetName()] = compiled[E]{version, e}
	return e
}

// setParams sets where the parameters of a policy come from.
func (p *policies[P, B, E]) setParams(hook *generic.PolicyHook[P, B, E], kind *admissionv1.ParamKind) {
	gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	served, ok := p.environment.Kind(gvk)
	if !ok {
		hook.ConfigurationError = fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
		return
	}
	hook.ParamInformer = params{objects: p.environment, resource: served.Resource}
	hook.ParamScope = meta.RESTScopeRoot
	if served.Namespaced {
		hook.ParamScope = meta.RESTScopeNamespace
	}
}

// validatingPolicies is the plugin ValidatingAdmissionPolicy.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/policy/validating.Plugin
type validatingPolicies struct {
	policies[*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding, validating.Validator]
}

// NewValidatingPolicies returns the plugin ValidatingAdmissionPolicy.
func NewValidatingPolicies(e Environment) admission.Interface {
	v := &validatingPolicies{newPolicies[*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding](
		e, webhookHandler(), "validatingadmissionpolicies", compileValidating)}
	v.accessor = validating.NewValidatingAdmissionPolicyAccessor
	v.policyOf = func(b *admissionv1.ValidatingAdmissionPolicyBinding) string { return b.Spec.PolicyName }
	v.dispatcher = validating.NewDispatcher(e.Authorizer, generic.NewPolicyMatcher(matcher(e)))
	return v
}

// Validate implements [admission.ValidationInterface].
func (v *validatingPolicies) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return v.dispatch(ctx, a, o, StepValidate, validating.PluginName)
}

// mutatingPolicies is the plugin MutatingAdmissionPolicy.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/policy/mutating.Plugin
type mutatingPolicies struct {
	policies[*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding, mutating.PolicyEvaluator]
}

// NewMutatingPolicies returns the plugin MutatingAdmissionPolicy.
func NewMutatingPolicies(e Environment) admission.Interface {
	m := &mutatingPolicies{newPolicies[*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding](
		e, admission.NewHandler(admission.Create, admission.Update, admission.Connect), "mutatingadmissionpolicies", compileMutating)}
	m.accessor = mutating.NewMutatingAdmissionPolicyAccessor
	m.policyOf = func(b *admissionv1.MutatingAdmissionPolicyBinding) string { return b.Spec.PolicyName }
	m.dispatcher = mutating.NewDispatcher(e.Authorizer, matcher(e), typeConverters{e})
	return m
}

// Admit implements [admission.MutationInterface].
func (m *mutatingPolicies) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return m.dispatch(ctx, a, o, StepAdmit, mutating.PluginName)
}

// matcher returns what decides whether a policy applies to a request.
func matcher(e Environment) *matching.Matcher {
	namespaces := stored.NewNamespaces(e)
	return matching.NewMatcher(namespaceLister{namespaces}, newClientset(namespaces))
}

// typeConverters provides the type converters of all kinds for the apply configurations of
// policies.
type typeConverters struct{ Environment }

// GetTypeConverter returns the converter of a kind, or nil if the kind is not served.
func (t typeConverters) GetTypeConverter(gvk schema.GroupVersionKind) managedfields.TypeConverter {
	served, ok := t.Kind(gvk)
	if !ok {
		return nil
	}
	return served.TypeConverter
}

// Run does nothing: the server keeps its converters up to date.
func (typeConverters) Run(context.Context) {}
