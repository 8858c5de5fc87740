// Package builtin is the list of the built-in kinds, their scheme, and the reviews.
package builtin

import (
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/admissionregistration"
	"flyball.dev/apiserver/kinds/apps"
	"flyball.dev/apiserver/kinds/autoscaling"
	"flyball.dev/apiserver/kinds/batch"
	"flyball.dev/apiserver/kinds/certificates"
	"flyball.dev/apiserver/kinds/coordination"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/kinds/discovery"
	"flyball.dev/apiserver/kinds/networking"
	"flyball.dev/apiserver/kinds/node"
	"flyball.dev/apiserver/kinds/policy"
	"flyball.dev/apiserver/kinds/rbac"
	"flyball.dev/apiserver/kinds/scheduling"
	"flyball.dev/apiserver/kinds/storage"
)

// All returns the descriptions of all built-in kinds that are stored. Each call returns new ones,
// with state of their own, such as allocators, so every server needs its own list.
func All() []kinds.Kind {
	return []kinds.Kind{
		core.Namespaces(), core.Nodes(), core.Pods(), core.PodTemplates(), core.Services(), core.Endpoints(),
		core.ConfigMaps(), core.Secrets(), core.ServiceAccounts(), core.Events(),
		core.ReplicationControllers(), core.PersistentVolumes(), core.PersistentVolumeClaims(),
		core.ResourceQuotas(), core.LimitRanges(),
		apps.Deployments(), apps.ReplicaSets(), apps.StatefulSets(), apps.DaemonSets(), apps.ControllerRevisions(),
		batch.Jobs(), batch.CronJobs(),
		certificates.CertificateSigningRequests(),
		coordination.Leases(),
		discovery.EndpointSlices(),
		networking.Ingresses(), networking.IngressClasses(), networking.NetworkPolicies(),
		policy.PodDisruptionBudgets(),
		autoscaling.HorizontalPodAutoscalers(),
		rbac.Roles(), rbac.RoleBindings(), rbac.ClusterRoles(), rbac.ClusterRoleBindings(),
		scheduling.PriorityClasses(), node.RuntimeClasses(), storage.StorageClasses(),
		admissionregistration.ValidatingWebhooks(), admissionregistration.MutatingWebhooks(),
	}
}
