// Package builtin lists the built-in kinds and has their scheme and the review kinds.
package builtin

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/admissionregistration"
	"flyball.dev/apiserver/kinds/apiregistration"
	"flyball.dev/apiserver/kinds/apps"
	"flyball.dev/apiserver/kinds/autoscaling"
	"flyball.dev/apiserver/kinds/batch"
	"flyball.dev/apiserver/kinds/certificates"
	"flyball.dev/apiserver/kinds/coordination"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/kinds/discovery"
	"flyball.dev/apiserver/kinds/flowcontrol"
	"flyball.dev/apiserver/kinds/networking"
	"flyball.dev/apiserver/kinds/node"
	"flyball.dev/apiserver/kinds/policy"
	"flyball.dev/apiserver/kinds/rbac"
	"flyball.dev/apiserver/kinds/resource"
	"flyball.dev/apiserver/kinds/scheduling"
	"flyball.dev/apiserver/kinds/storage"
	"flyball.dev/apiserver/kinds/storagemigration"
)

// Options configure built-in kinds.
type Options struct {
	// ServiceNetwork is the IPv4 range of cluster IPs. The default is [core.DefaultServiceNetwork].
	ServiceNetwork netip.Prefix
	// Claims, if not nil, keeps the servers that share a storage from allocating a node port twice.
	Claims core.Claims
	// Authorizer authorizes connections to pods and writes of the status of ResourceClaims.
	Authorizer authorizer.UnconditionalAuthorizer
	// Namespace returns a namespace. The caller must not change it. Admin access to devices depends on its label.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
}

// All returns the descriptions of the stored built-in kinds. Descriptions have state, such as allocators, so each
// server needs its own list.
func All(o Options) []kinds.Kind {
	if !o.ServiceNetwork.IsValid() {
		o.ServiceNetwork = core.DefaultServiceNetwork
	}
	devices := resource.Access{Authorizer: o.Authorizer, Namespace: o.Namespace}
	budgets, binder, addresses := &core.Budgets{}, &core.Binder{}, &core.Addresses{Network: o.ServiceNetwork.Masked(), Claims: o.Claims}
	return []kinds.Kind{
		core.Namespaces(), core.Nodes(), core.Pods(budgets, binder, o.Authorizer), core.Bindings(binder), core.PodTemplates(), core.Services(addresses), core.Endpoints(), core.ConfigMaps(), core.Secrets(), core.ServiceAccounts(), core.Events(),
		core.ReplicationControllers(), core.PersistentVolumes(), core.PersistentVolumeClaims(), core.ResourceQuotas(), core.LimitRanges(),
		apiregistration.APIServices(),
		apps.Deployments(), apps.ReplicaSets(), apps.StatefulSets(), apps.DaemonSets(), apps.ControllerRevisions(),
		batch.Jobs(), batch.CronJobs(),
		certificates.CertificateSigningRequests(), certificates.ClusterTrustBundles(), certificates.PodCertificateRequests(),
		coordination.Leases(),
		discovery.EndpointSlices(),
		flowcontrol.FlowSchemas(), flowcontrol.PriorityLevels(),
		networking.Ingresses(), networking.IngressClasses(), networking.NetworkPolicies(), networking.ServiceCIDRs(addresses), networking.IPAddresses(addresses),
		policy.PodDisruptionBudgets(budgets),
		autoscaling.HorizontalPodAutoscalers(),
		resource.ResourceClaims(devices), resource.ResourceClaimTemplates(devices), resource.ResourceSlices(), resource.DeviceClasses(), resource.DeviceTaintRules(),
		rbac.Roles(), rbac.RoleBindings(), rbac.ClusterRoles(), rbac.ClusterRoleBindings(),
		scheduling.PriorityClasses(), node.RuntimeClasses(), storage.StorageClasses(),
		storage.CSIDrivers(), storage.CSINodes(), storage.CSIStorageCapacities(), storage.VolumeAttachments(), storage.VolumeAttributesClasses(),
		storagemigration.StorageVersionMigrations(),
		admissionregistration.ValidatingWebhooks(), admissionregistration.MutatingWebhooks(),
		admissionregistration.ValidatingPolicies(), admissionregistration.ValidatingPolicyBindings(),
		admissionregistration.MutatingPolicies(), admissionregistration.MutatingPolicyBindings(),
	}
}

// Computed returns the descriptions of the built-in kinds without stored objects; the server computes them for each
// request.
func Computed() []kinds.Kind { return []kinds.Kind{core.ComponentStatuses()} }
