// Package builtin lists the built-in kinds and has their scheme and the review kinds.
//
// A new kind is a file in the folder of its API group, below package kinds, and a line in the list here. The first kind
// of a group also needs a line in scheme.go.
package builtin

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"flyball.dev/apiserver/kinds/metrics"
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
	// Connections, if not nil, lead to nodes and pods.
	Connections *core.Connections
	// Namespace returns a namespace. The caller must not change it. Admin access to devices depends on its label.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
	// RemovedVersions serves policy/v1beta1 and batch/v1beta1, which Kubernetes has removed.
	RemovedVersions bool
}

// All returns the descriptions of the stored built-in kinds. Descriptions have state, such as allocators, so each
// server needs its own list.
func All(o Options) (all []kinds.Kind) {
	for _, describe := range Sets(o) {
		all = append(all, describe()...)
	}
	return all
}

// Sets describes the stored built-in kinds in sets that share no state.
func Sets(o Options) []kinds.Set {
	if !o.ServiceNetwork.IsValid() {
		o.ServiceNetwork = core.DefaultServiceNetwork
	}
	return []kinds.Set{
		func() []kinds.Kind {
			budgets, binder := &core.Budgets{}, &core.Binder{}
			return []kinds.Kind{core.Pods(budgets, binder, o.Authorizer, o.Connections), core.Bindings(binder), policy.PodDisruptionBudgets(budgets, o.RemovedVersions)}
		},
		func() []kinds.Kind {
			addresses := &core.Addresses{Network: o.ServiceNetwork.Masked(), Claims: o.Claims}
			return []kinds.Kind{core.Services(addresses, o.Connections), networking.ServiceCIDRs(addresses), networking.IPAddresses(addresses)}
		},
		func() []kinds.Kind {
			access := resource.Access{Authorizer: o.Authorizer, Namespace: o.Namespace}
			return []kinds.Kind{resource.ResourceClaims(access), resource.ResourceClaimTemplates(access)}
		},
		func() []kinds.Kind { return []kinds.Kind{core.Nodes(o.Connections)} },
		func() []kinds.Kind { return []kinds.Kind{batch.CronJobs(o.RemovedVersions)} },
		one(core.Namespaces), one(core.PodTemplates), one(core.Endpoints), one(core.ConfigMaps), one(core.Secrets),
		one(core.ServiceAccounts), one(core.Events), one(core.ReplicationControllers), one(core.PersistentVolumes),
		one(core.PersistentVolumeClaims), one(core.ResourceQuotas), one(core.LimitRanges),
		one(apiregistration.APIServices),
		one(apps.Deployments), one(apps.ReplicaSets), one(apps.StatefulSets), one(apps.DaemonSets), one(apps.ControllerRevisions),
		one(batch.Jobs),
		one(certificates.CertificateSigningRequests), one(certificates.ClusterTrustBundles), one(certificates.PodCertificateRequests),
		one(coordination.Leases),
		one(discovery.EndpointSlices),
		one(flowcontrol.FlowSchemas), one(flowcontrol.PriorityLevels),
		one(networking.Ingresses), one(networking.IngressClasses), one(networking.NetworkPolicies),
		one(autoscaling.HorizontalPodAutoscalers),
		one(resource.ResourceSlices), one(resource.DeviceClasses), one(resource.DeviceTaintRules),
		one(rbac.Roles), one(rbac.RoleBindings), one(rbac.ClusterRoles), one(rbac.ClusterRoleBindings),
		one(scheduling.PriorityClasses), one(node.RuntimeClasses), one(storage.StorageClasses),
		one(storage.CSIDrivers), one(storage.CSINodes), one(storage.CSIStorageCapacities), one(storage.VolumeAttachments),
		one(storage.VolumeAttributesClasses),
		one(storagemigration.StorageVersionMigrations),
		one(admissionregistration.ValidatingWebhooks), one(admissionregistration.MutatingWebhooks),
		one(admissionregistration.ValidatingPolicies), one(admissionregistration.ValidatingPolicyBindings),
		one(admissionregistration.MutatingPolicies), one(admissionregistration.MutatingPolicyBindings),
	}
}

// one returns the set of a kind that shares no state.
func one[K kinds.Kind](describe func() K) kinds.Set {
	return func() []kinds.Kind { return []kinds.Kind{describe()} }
}

// Stored returns the resources that the objects of the built-in kinds are stored as.
func Stored() (resources []schema.GroupResource) {
	for _, kind := range All(Options{}) {
		if resource, ok := kinds.StoredAs(kind, Scheme()); ok {
			resources = append(resources, resource)
		}
	}
	return resources
}

// Measured returns the descriptions of the kinds of a source of metrics, which may be nil. They have no stored objects.
func Measured(source *metrics.Source) []kinds.Kind {
	if source == nil {
		return nil
	}
	return []kinds.Kind{source.PodMetrics(), source.NodeMetrics()}
}
