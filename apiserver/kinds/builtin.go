package kinds

// All describes every built-in kind that is stored. What a description keeps for itself, such as the cluster IPs that
// are taken, belongs to the server whose list it is in.
func All() []Kind {
	return []Kind{
		namespaces(), nodes(), pods(), podTemplates(), services(), endpoints(), configMaps(), secrets(), serviceAccounts(), events(),
		replicationControllers(), persistentVolumes(), persistentVolumeClaims(), resourceQuotas(), limitRanges(),
		deployments(), replicaSets(), statefulSets(), daemonSets(), controllerRevisions(),
		jobs(), cronJobs(),
		leases(),
		endpointSlices(),
		ingresses(), ingressClasses(), networkPolicies(),
		podDisruptionBudgets(),
		horizontalPodAutoscalers(),
		roles(), roleBindings(), clusterRoles(), clusterRoleBindings(),
		priorityClasses(), runtimeClasses(), storageClasses(),
		validatingWebhooks(), mutatingWebhooks(),
	}
}
