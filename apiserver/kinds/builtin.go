package kinds

// all describes every built-in kind. What a description keeps for itself, such as the cluster IPs that
// are taken, belongs to the server whose list it is in.
func all() []Kind {
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
