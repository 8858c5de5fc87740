package fake

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// statusTable has the built-in kinds with a status subresource. A builder may add others.
const statusTable = `
v1 Namespace Node PersistentVolume PersistentVolumeClaim Pod ReplicationController Service
apps/v1 DaemonSet Deployment ReplicaSet StatefulSet
autoscaling/v1 HorizontalPodAutoscaler
batch/v1 CronJob Job
certificates.k8s.io/v1 CertificateSigningRequest
networking.k8s.io/v1 Ingress NetworkPolicy
policy/v1 PodDisruptionBudget
storage.k8s.io/v1 VolumeAttachment
apiextensions.k8s.io/v1 CustomResourceDefinition
flowcontrol.apiserver.k8s.io/v1beta2 FlowSchema PriorityLevelConfiguration
flowcontrol.apiserver.k8s.io/v1 FlowSchema PriorityLevelConfiguration
`

// unconditionalTable has the kinds, by group, that can be updated without a resource version. Their
// group is written as "core" where it is empty.
const unconditionalTable = `
core ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod
core PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
apps ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet
autoscaling HorizontalPodAutoscaler
batch CronJob Job
certificates.k8s.io CertificateSigningRequest
discovery.k8s.io EndpointSlice
flowcontrol.apiserver.k8s.io FlowSchema PriorityLevelConfiguration
networking.k8s.io Ingress IngressClass NetworkPolicy
rbac.authorization.k8s.io ClusterRole ClusterRoleBinding Role RoleBinding
scheduling.k8s.io PriorityClass
storage.k8s.io StorageClass
`

// createTable has kinds by group. An update of an object of these kinds creates it if it is absent.
const createTable = `
core Endpoints Event LimitRange Service
coordination.k8s.io Lease
node.k8s.io RuntimeClass
rbac.authorization.k8s.io ClusterRole ClusterRoleBinding Role RoleBinding
`

var (
	statusKinds         = table(statusTable)
	unconditionalKinds  = table(unconditionalTable)
	createOnUpdateKinds = table(createTable)
)

// table returns the first word of each line, as a group or version, with each of the others.
func table(lines string) sets.Set[[2]string] {
	set := sets.Set[[2]string]{}
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		for i := 1; i < len(words); i++ {
			set.Insert([2]string{words[0], words[i]})
		}
	}
	return set
}

// kindsWithStatus returns a new set of the kinds in statusTable.
func kindsWithStatus() sets.Set[schema.GroupVersionKind] {
	kinds := make(sets.Set[schema.GroupVersionKind], len(statusKinds))
	for entry := range statusKinds {
		gv, _ := schema.ParseGroupVersion(entry[0]) // a constant
		kinds.Insert(gv.WithKind(entry[1]))
	}
	return kinds
}

// allowsUnconditionalUpdate reports whether objects of a kind can be updated without a resource
// version.
func allowsUnconditionalUpdate(gvk schema.GroupVersionKind) bool {
	return unconditionalKinds.Has(groupKind(gvk))
}

// allowsCreateOnUpdate reports whether an update of an object that does not exist creates it.
func allowsCreateOnUpdate(gvk schema.GroupVersionKind) bool {
	return createOnUpdateKinds.Has(groupKind(gvk))
}

func groupKind(gvk schema.GroupVersionKind) [2]string {
	if gvk.Group == "" {
		gvk.Group = "core"
	}
	return [2]string{gvk.Group, gvk.Kind}
}
