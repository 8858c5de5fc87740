package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// Install are the options of installing webhooks: of the objects that make an API server call them.
// It is meant for development, in place of the manifests that controller-gen makes of markers and
// kustomize connects to cert-manager, and does what these do by default:
//
//   - A MutatingWebhookConfiguration and a ValidatingWebhookConfiguration have a webhook for each
//     defaulter and validator of the builder, with the names that Kubebuilder's markers have, such
//     as mappservice-v1.kb.io. It is called when objects of its version are created and updated; a
//     validator also when they are deleted.
//   - CustomResourceDefinitions of kinds with a conversion webhook get it as their conversion. They
//     must exist.
//
// The API server calls the webhooks by URL and verifies them with the CA of the server's
// certificate: the file ca.crt in CertDir if there is one, otherwise the last certificate of the
// chain. The objects stay when the manager stops; they are updated when it is started again. This
// type is Flyball's own.
type Install struct {
	// Host is the name or address by which the API server reaches this server: by default
	// Options.Host, or localhost.
	Host string

	// NamePrefix is put before the names of the configurations, mutating-webhook-configuration and
	// validating-webhook-configuration. Operators that share an API server need different prefixes.
	NamePrefix string
}

// HookType says what a webhook does. It is Flyball's own.
type HookType string

// The types of webhooks that can be installed.
const (
	Mutating   HookType = "Mutating"
	Validating HookType = "Validating"
	Conversion HookType = "Conversion"
)

// Hook describes a webhook that is to be installed. It is Flyball's own.
type Hook struct {
	Type HookType
	// Path is what the webhook is registered at.
	Path string
	// Kind is what it is called for: one version for admission, all for conversion.
	Kind schema.GroupVersionKind
}

const createFirst = "its CustomResourceDefinition must be created first"

// hooks are the webhooks to be installed.
type hooks struct {
	mu        sync.Mutex
	all       []Hook
	installed bool
}

// Declare adds a webhook to those that Options.Install installs. The builder declares its webhooks;
// those that are registered by Register alone have to be declared as well. It returns an error if
// webhooks have been installed already. It is Flyball's own.
func (s *DefaultServer) Declare(h Hook) error {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	if s.hooks.installed {
		return fmt.Errorf("webhook %s cannot be installed: the webhooks of this server have been installed already", h.Path)
	}
	s.hooks.all = append(s.hooks.all, h)
	return nil
}

// install installs all webhooks that were declared, if the options ask for it.
func (s *DefaultServer) install(ctx context.Context) error {
	if s.Options.Install == nil {
		return nil
	}
	s.mu.Lock()
	newClient := s.newClient
	s.mu.Unlock()
	if newClient == nil {
		return errors.New("webhooks cannot be installed: the server does not belong to a manager")
	}
	c, err := newClient()
	if err != nil {
		return fmt.Errorf("webhooks cannot be installed: %w", err)
	}
	i, err := s.newInstaller(ctx, c)
	if err != nil {
		return fmt.Errorf("webhooks cannot be installed: %w", err)
	}
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.installed = true
	if err := i.install(ctx, s.hooks.all); err != nil {
		return fmt.Errorf("webhooks cannot be installed: %w", err)
	}
	return nil
}

// newInstaller returns an installer for the address and certificate that the server serves with.
func (s *DefaultServer) newInstaller(ctx context.Context, c client.Client) (*installer, error) {
	s.mu.Lock()
	address, certificate := s.address, s.certificate
	s.mu.Unlock()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	switch o := s.Options; {
	case o.Install.Host != "":
		host = o.Install.Host
	case unspecified(host):
		host = "localhost"
	}
	// Only the server knows which certificate it shows to whom. The error may be that clients need
	// one too.
	chain, err := handshake(ctx, address, host)
	if len(chain) == 0 {
		return nil, err
	}
	ca, err := certificate.bundle(host, chain)
	if err != nil {
		return nil, err
	}
	return &installer{
		client: c,
		prefix: s.Options.Install.NamePrefix,
		url:    "https://" + net.JoinHostPort(host, port),
		ca:     ca,
	}, nil
}

// installer writes the objects of webhooks. It uses unstructured objects, so that the scheme of the
// manager need not have their types.
type installer struct {
	client client.Client
	prefix string
	url    string // without path
	ca     []byte
	dryRun bool
}

// install writes the objects for hooks. If the API server refuses one of them, it writes none:
// webhooks of an operator that does not run would refuse every request that they are called for.
func (i *installer) install(ctx context.Context, hooks []Hook) error {
	trial := *i
	trial.dryRun = true
	if err := trial.write(ctx, hooks); err != nil {
		return err
	}
	return i.write(ctx, hooks)
}

// write writes the objects for hooks.
func (i *installer) write(ctx context.Context, hooks []Hook) error {
	admission := map[HookType][]any{}
	names := map[string]int{}
	for _, h := range hooks {
		mapping, err := i.client.RESTMapper().RESTMapping(h.Kind.GroupKind(), h.Kind.Version)
		if meta.IsNoMatchError(err) {
			err = fmt.Errorf("%w: %s", err, createFirst)
		}
		if err != nil {
			return fmt.Errorf("%s webhook %s: %w", h.Type, h.Path, err)
		}
		if h.Type == Conversion {
			err = i.convert(ctx, mapping.Resource.GroupResource(), h)
			if err != nil {
				return fmt.Errorf("%s webhook of %s: %w", h.Type, h.Kind.GroupKind(), err)
			}
			continue
		}
		name := webhookName(h)
		names[name]++
		if n := names[name]; n > 1 {
			name += fmt.Sprintf("-%d", n)
		}
		admission[h.Type] = append(admission[h.Type], i.webhook(name+".kb.io", h, mapping.Resource))
	}
	return errors.Join(i.apply(ctx, Mutating, admission[Mutating]), i.apply(ctx, Validating, admission[Validating]))
}

// apply creates or updates the configuration for the webhooks of a type. Server-side apply removes
// webhooks from it that were applied before and exist no longer.
func (i *installer) apply(ctx context.Context, hookType HookType, webhooks []any) error {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("admissionregistration.k8s.io/v1")
	obj.SetKind(string(hookType) + "WebhookConfiguration")
	obj.SetName(i.prefix + strings.ToLower(string(hookType)) + "-webhook-configuration")
	before, err := i.applied(ctx, obj)
	if err != nil || before == nil && len(webhooks) == 0 {
		return err
	}
	if webhooks == nil {
		webhooks = []any{} // null would be no value
	}
	obj.Object["webhooks"] = webhooks
	opts := []client.ApplyOption{i.owner(), client.ForceOwnership}
	if i.dryRun {
		opts = append(opts, client.DryRunAll)
	}
	if err := i.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), opts...); err != nil {
		return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	if i.dryRun {
		return nil
	}
	logger := log().WithValues("kind", obj.GetKind(), "name", obj.GetName())
	after := namesOfWebhooks(obj)
	withdrawn := slices.DeleteFunc(namesOfWebhooks(before), func(name string) bool { return slices.Contains(after, name) })
	if len(withdrawn) > 0 {
		logger.Info("Withdrew webhooks that were installed before; if they belong to another operator, "+
			"set NamePrefix in webhook.Install", "webhooks", withdrawn)
	}
	logger.Info("Installed webhooks", "webhooks", len(webhooks))
	return nil
}

// namesOfWebhooks returns the names of the webhooks in a configuration, which may be nil.
func namesOfWebhooks(configuration *unstructured.Unstructured) (names []string) {
	if configuration == nil {
		return nil
	}
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, w := range webhooks {
		if w, ok := w.(map[string]any); ok {
			names = append(names, fmt.Sprint(w["name"]))
		}
	}
	return names
}

// owner is the field manager of what is installed.
func (i *installer) owner() client.FieldOwner {
	return client.FieldOwner(i.prefix + "flyball-webhooks")
}

// applied returns the stored state of obj if it has fields that an installer has applied, and
// otherwise nil.
func (i *installer) applied(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	existing := obj.DeepCopy()
	if err := i.client.Get(ctx, client.ObjectKeyFromObject(obj), existing); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	isOwner := func(f metav1.ManagedFieldsEntry) bool { return f.Manager == string(i.owner()) }
	if !slices.ContainsFunc(existing.GetManagedFields(), isOwner) {
		return nil, nil
	}
	return existing, nil
}

// webhook returns the entry of an admission webhook in its configuration.
func (i *installer) webhook(name string, h Hook, resource schema.GroupVersionResource) map[string]any {
	operations := []any{"CREATE", "UPDATE"}
	if h.Type == Validating {
		operations = append(operations, "DELETE")
	}
	return map[string]any{
		"name":                    name,
		"admissionReviewVersions": []any{"v1"},
		"sideEffects":             "None",
		"failurePolicy":           "Fail",
		"clientConfig":            i.clientConfig(h),
		"rules": []any{map[string]any{
			"apiGroups":   []any{resource.Group},
			"apiVersions": []any{resource.Version},
			"resources":   []any{resource.Resource},
			"operations":  operations,
		}},
	}
}

// webhookName returns the first label of the name of an admission webhook.
func webhookName(h Hook) string {
	return strings.ToLower(string(h.Type[:1])+h.Kind.Kind) + "-" + h.Kind.Version
}

func (i *installer) clientConfig(h Hook) map[string]any {
	return map[string]any{"url": i.url + h.Path, "caBundle": base64.StdEncoding.EncodeToString(i.ca)}
}

// convert makes a webhook the conversion of a CustomResourceDefinition.
func (i *installer) convert(ctx context.Context, resource schema.GroupResource, h Hook) error {
	config := i.clientConfig(h)
	config["service"] = nil // a definition may have either
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"conversion": map[string]any{
		"strategy": "Webhook",
		"webhook":  map[string]any{"conversionReviewVersions": []any{"v1"}, "clientConfig": config},
	}}})
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(resource.String())
	opts := []client.PatchOption{i.owner()}
	if i.dryRun {
		opts = append(opts, client.DryRunAll)
	}
	err = i.client.Patch(ctx, crd, client.RawPatch(types.MergePatchType, patch), opts...)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %s", err, createFirst)
	}
	if err == nil && !i.dryRun {
		log().Info("Installed a conversion webhook", "crd", crd.GetName())
	}
	return err
}
