// Package admission has the admission plugins, which mutate and validate authorized requests.
//
// They have the names and the order of kube-apiserver's. They use no informers, so they never read
// stale objects.
package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// Options choose among the plugins. The zero value runs them all.
type Options struct {
	// Disable are the names of the plugins that do not run; see [Names].
	Disable []string
}

// plugins are all plugins in their order.
var plugins = []struct {
	name string
	new  func(Objects) admission.Interface
}{
	{"NamespaceLifecycle", newNamespaceLifecycle},
	{ServiceAccount, newServiceAccount},
	{"Priority", newPriority},
	{"DefaultTolerationSeconds", newDefaultTolerationSeconds},
	{"RuntimeClass", newRuntimeClass},
}

// ServiceAccount is the name of the plugin that gives pods their service accounts. It refuses pods
// in a namespace without the account "default", so something must create that account in every
// namespace.
const ServiceAccount = "ServiceAccount"

// Names returns the names of all plugins.
func Names() []string {
	names := make([]string, len(plugins))
	for i, p := range plugins {
		names[i] = p.name
	}
	return names
}

// New returns the chain of the plugins that are not disabled. It fails for an unknown name.
func New(o Options, objects Objects) (admission.Interface, error) {
	for _, name := range o.Disable {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("there is no admission plugin %q; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	var chosen []admission.Interface
	for _, p := range plugins {
		if !slices.Contains(o.Disable, p.name) {
			chosen = append(chosen, p.new(objects))
		}
	}
	return admission.NewChainHandler(chosen...), nil
}

// podOf returns the pod that a request writes, or nil if it is about anything else or a
// subresource.
func podOf(a admission.Attributes) *corev1.Pod {
	if a.GetSubresource() != "" || a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil
	}
	pod, _ := a.GetObject().(*corev1.Pod)
	return pod
}
