// Package admission implements the admission plugins, which mutate and validate authorized requests.
//
// The plugins have the names and the order of kube-apiserver's plugins. They read stored objects with package stored
// instead of client-go informers, so that no plugin decides by stale objects. The plugins here are Flyball's own; package
// upstream adapts the plugins of Kubernetes' libraries.
//
// The handlers of a resource call only the plugins that may have something to do for it (TestApplies), and observe
// upstream's metrics of the steps without a lookup of their labels (TestStepMetrics). Only plugins that may take long
// are measured.
package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver/admission/upstream"
)

// Options select the plugins. The zero value selects the default plugins of kube-apiserver.
type Options struct {
	// Enable names plugins that run in addition to the default ones. Disable names plugins that do not run. See
	// [Names].
	Enable, Disable []string
	// ConfigFile is the path of an AdmissionConfiguration of the group apiserver.config.k8s.io. It configures
	// EventRateLimit, PodSecurity and PodTolerationRestriction. EventRateLimit requires a configuration.
	ConfigFile string
}

// Environment connects the plugins to the server.
type Environment = upstream.Environment

// plugins lists all plugins of kube-apiserver in their order. A plugin without a constructor is not implemented.
//
//upstream:pkg/kubeapiserver/options.AllOrderedPlugins
//upstream:pkg/kubeapiserver/options.DefaultOffAdmissionPlugins
var plugins = []struct {
	name string
	new  func(Environment) admission.Interface
	// configured is the constructor of a plugin with a configuration, instead of new. The configuration is nil if the
	// file has none for the plugin.
	configured func(Environment, []byte) (admission.Interface, error)
	// off is set for plugins that are disabled by default.
	off bool
	// applies, if not nil, reports whether the plugin may have something to do for a resource and its subresources.
	applies func(schema.GroupResource) bool
}{
	{name: "AlwaysAdmit", new: newNothing, off: true},
	{name: "NamespaceAutoProvision", new: newNamespaceAutoProvision, off: true},
	{name: NamespaceLifecycle, new: newNamespaceLifecycle},
	{name: "NamespaceExists", new: newNamespaceExists, off: true},
	{name: "LimitPodHardAntiAffinityTopology", new: newLimitAntiAffinity, off: true, applies: to("pods")},
	{name: "LimitRanger", new: newLimitRanger, applies: to("pods", "persistentvolumeclaims")},
	{name: ServiceAccount, new: newServiceAccount, applies: to("pods")},
	{name: NodeRestriction, new: newNodeRestriction, off: true},
	{name: TaintNodesByCondition, new: newTaintNodes, applies: to("nodes")},
	{name: "AlwaysPullImages", new: newAlwaysPullImages, off: true, applies: to("pods")},
	{name: "ImagePolicyWebhook", off: true},
	{name: "PodSecurity", configured: upstream.NewPodSecurity, applies: upstream.PodSecurityApplies},
	{name: "PodNodeSelector", new: newPodNodeSelector, off: true, applies: to("pods")},
	{name: "Priority", new: newPriority, applies: to("pods", "priorityclasses.scheduling.k8s.io")},
	{name: "DefaultTolerationSeconds", new: newDefaultTolerationSeconds, applies: to("pods")},
	{name: "PodTolerationRestriction", configured: newPodTolerations, off: true, applies: to("pods")},
	{name: "EventRateLimit", configured: newEventRateLimit, off: true},
	{name: "ExtendedResourceToleration", new: newExtendedResourceToleration, off: true, applies: to("pods")},
	{name: "DefaultStorageClass", new: newDefaultStorageClass, applies: to("persistentvolumeclaims")},
	{name: StorageObjectInUseProtection, new: newStorageProtection, applies: to("persistentvolumes", "persistentvolumeclaims", "volumeattributesclasses.storage.k8s.io")},
	{name: "PodGroupProtection"},
	{name: "OwnerReferencesPermissionEnforcement", new: newOwnerReferences, off: true},
	{name: "PersistentVolumeClaimResize", new: newClaimResize, applies: to("persistentvolumeclaims")},
	{name: "RuntimeClass", new: newRuntimeClass, applies: to("pods")},
	{name: "CertificateApproval", new: newCertificateApproval, applies: to("certificatesigningrequests.certificates.k8s.io")},
	{name: "CertificateSigning", new: newCertificateSigning, applies: to("certificatesigningrequests.certificates.k8s.io")},
	{name: "ClusterTrustBundleAttest", new: newClusterTrustBundleAttest, applies: to("clustertrustbundles.certificates.k8s.io")},
	{name: "CertificateSubjectRestriction", new: newCertificateSubjectRestriction, applies: to("certificatesigningrequests.certificates.k8s.io")},
	{name: "DefaultIngressClass", new: newDefaultIngressClass, applies: to("ingresses.networking.k8s.io")},
	{name: "DenyServiceExternalIPs", new: newDenyExternalIPs, off: true, applies: to("services")},
	{name: "PodTopologyLabels", new: newPodTopologyLabels, applies: to("pods")},
	{name: "NodeDeclaredFeatureValidator"},
	{name: "PodResizeValidator", new: newPodResizeValidator, applies: to("pods")},
	{name: "MutatingAdmissionPolicy", new: upstream.NewMutatingPolicies, applies: upstream.PoliciesApply},
	{name: "MutatingAdmissionWebhook", new: upstream.NewMutatingWebhooks},
	{name: "ValidatingAdmissionPolicy", new: upstream.NewValidatingPolicies, applies: upstream.PoliciesApply},
	{name: "ValidatingAdmissionWebhook", new: upstream.NewValidatingWebhooks},
	{name: "ResourceQuota", new: upstream.NewResourceQuota, applies: upstream.QuotaApplies},
	{name: "AlwaysDeny", new: newAlwaysDeny, off: true},
}

// NamespaceLifecycle is the name of the plugin that rejects new objects in missing or terminating namespaces.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.PluginName
const NamespaceLifecycle = "NamespaceLifecycle"

// ServiceAccount is the name of the plugin that assigns service accounts to pods. It rejects pods in a namespace
// without the service account "default", so a controller must create that account in every namespace.
//
//upstream:plugin/pkg/admission/serviceaccount.PluginName
const ServiceAccount = "ServiceAccount"

// StorageObjectInUseProtection is the name of the plugin that adds finalizers to new volumes, claims and
// VolumeAttributesClasses. A controller must remove the finalizers; otherwise the objects are never deleted.
//
//upstream:plugin/pkg/admission/storage/storageobjectinuseprotection.PluginName
const StorageObjectInUseProtection = "StorageObjectInUseProtection"

// TaintNodesByCondition is the name of the plugin that taints new nodes. A controller must remove the taint when a node
// is ready.
//
//upstream:plugin/pkg/admission/nodetaint.PluginName
const TaintNodesByCondition = "TaintNodesByCondition"

// to returns a function that recognizes some resources, each in the form RESOURCE or RESOURCE.GROUP.
func to(resources ...string) func(schema.GroupResource) bool {
	return func(r schema.GroupResource) bool { return slices.Contains(resources, r.String()) }
}

// Names returns the names of all plugins, including unimplemented ones.
func Names() []string {
	names := make([]string, len(plugins))
	for i, p := range plugins {
		names[i] = p.name
	}
	return names
}

// Plugins are the selected plugins of a server.
type Plugins struct{ chosen []chosenPlugin }

// chosenPlugin is a plugin with the resources that it applies to; nil means all.
type chosenPlugin struct {
	admission.Interface
	applies func(schema.GroupResource) bool
}

// Of returns the chain of the plugins that may have something to do for a resource. It must get only requests for the
// resource and its subresources.
func (p *Plugins) Of(r schema.GroupResource) admission.Interface {
	var some []admission.Interface
	for _, one := range p.chosen {
		if one.applies == nil || one.applies(r) {
			some = append(some, one.Interface)
		}
	}
	return measured{reinvoking{newChain(some)}}
}

// New returns the selected plugins. It fails for an unknown name and an invalid configuration. It logs a
// warning for unimplemented plugins that are enabled by name, and for the configuration of a plugin that has none.
//
//upstream:k8s.io/apiserver/pkg/admission.Plugins.NewFromPlugins
func New(o Options, e Environment) (*Plugins, error) {
	for _, name := range slices.Concat(o.Enable, o.Disable) {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("there is no admission plugin %q; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	configurations, err := readConfigurations(o.ConfigFile)
	if err != nil {
		return nil, err
	}
	selected := &Plugins{}
	for _, p := range plugins {
		enabled := slices.Contains(o.Enable, p.name)
		implemented := p.new != nil || p.configured != nil
		if configurations[p.name] != nil && p.configured == nil {
			klog.Warningf("The configuration of the admission plugin %s has no effect", p.name)
		}
		switch {
		case slices.Contains(o.Disable, p.name):
		case !implemented && enabled:
			klog.Warningf("The admission plugin %s is not implemented", p.name)
		case implemented && (enabled || !p.off):
			var plugin admission.Interface
			if p.configured == nil {
				plugin = p.new(e)
			} else if plugin, err = p.configured(e, configurations[p.name]); err != nil {
				return nil, fmt.Errorf("couldn't init admission plugin %q: %w", p.name, err)
			}
			selected.chosen = append(selected.chosen, chosenPlugin{plugin, p.applies})
		}
	}
	return selected, nil
}

// reinvoking calls all mutating plugins a second time if a webhook or a policy has changed the object.
type reinvoking struct{ chain }

// Admit implements [admission.MutationInterface].
//
//upstream:k8s.io/apiserver/pkg/admission.reinvoker.Admit
func (r reinvoking) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := r.chain.Admit(ctx, a, o); err != nil {
		return err
	}
	again := a.GetReinvocationContext()
	if !again.ShouldReinvoke() {
		return nil
	}
	again.SetIsReinvoke()
	return r.chain.Admit(ctx, a, o)
}

// podOf returns the pod that a request writes. It returns nil for subresources and other kinds.
func podOf(a admission.Attributes) *corev1.Pod {
	if a.GetSubresource() != "" || a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil
	}
	pod, _ := a.GetObject().(*corev1.Pod)
	return pod
}
