package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

	// NamespaceSelector and ObjectSelector, if not nil, restrict for which objects the admission
	// webhooks are called, as the fields of the configurations do. An operator with webhooks for
	// objects of others, such as Pods, needs them: without it running, the API server refuses what the
	// webhooks are called for.
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
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
	// The certificate may depend on the host, so it is taken from a handshake. The error may be that
	// the server requires a certificate of its clients, which the API server is configured with.
	chain, err := s.handshake(ctx, address, host)
	if len(chain) == 0 {
		return nil, err
	}
	ca, err := certificate.caBundle(host, chain)
	if err != nil {
		return nil, err
	}
	selectors, err := s.Options.Install.selectors()
	if err != nil {
		return nil, err
	}
	return &installer{
		client:    c,
		prefix:    s.Options.Install.NamePrefix,
		url:       "https://" + net.JoinHostPort(host, port),
		ca:        ca,
		selectors: selectors,
	}, nil
}

// selectors returns the fields of a webhook that restrict for which objects it is called.
func (i *Install) selectors() (map[string]any, error) {
	fields := map[string]any{}
	for name, selector := range map[string]*metav1.LabelSelector{
		"namespaceSelector": i.NamespaceSelector, "objectSelector": i.ObjectSelector,
	} {
		if selector == nil {
			continue
		}
		value, err := runtime.DefaultUnstructuredConverter.ToUnstructured(selector)
		if err != nil {
			return nil, err
		}
		fields[name] = value
	}
	return fields, nil
}
