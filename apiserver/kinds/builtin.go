package kinds

// all describes every built-in kind. What a description keeps for itself, such as the cluster IPs that
// are taken, belongs to the server whose list it is in.
func all() []Kind {
	return []Kind{
		namespaces(), nodes(), pods(), podTemplates(), services(), configMaps(), secrets(), serviceAccounts(), events(),
		replicationControllers(),
		deployments(), replicaSets(),
		leases(),
		roles(), roleBindings(), clusterRoles(), clusterRoleBindings(),
	}
}
