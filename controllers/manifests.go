package controllers

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"flyball.dev/controllers/localpath"
	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
)

// Manifests returns the objects that the selected controllers need before they start, in addition to the objects that
// every cluster has. These are the service accounts, the provisioner's default StorageClass, the binding of the
// provisioner's service account to system:persistent-volume-provisioner, the role of the controller of Ingresses, the role that adds metrics to the roles of users,
// and the nodes, which are ready. Unless the API server authorizes nodes itself, a binding of the nodes' group to
// system:node is among them. Manifests fails if Without has an unknown name, or if two nodes have the same name.
func (o *Options) Manifests(nodeAuthorizer bool) ([]client.Object, error) {
	selected, err := o.Names()
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	accounts := map[string]bool{}
	for _, d := range o.descriptors() {
		name, ok := d.identity.serviceAccount()
		if !ok || accounts[name] || !slices.Contains(selected, d.name) {
			continue
		}
		accounts[name] = true
		objects = append(objects, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}})
	}
	if slices.Contains(selected, "local-path-provisioner") {
		objects = append(objects, localpath.DefaultStorageClass(),
			binding("local-path-provisioner-bind", "system:persistent-volume-provisioner", provisionerIdentity.subject()))
	}
	if slices.Contains(selected, ingressName) {
		objects = append(objects, ingressRole(), binding(ingressName, ingressName, ingressIdentity.subject()))
	}
	if slices.Contains(selected, metricsServer) && slices.Contains(selected, "pods") {
		objects = append(objects, metricsReader())
	}
	if slices.Contains(selected, "pods") {
		nodes, err := o.Pods.RegisteredNodes(time.Now())
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			objects = append(objects, n)
		}
		if !nodeAuthorizer {
			objects = append(objects, binding(pods.Group, "system:node", rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: pods.Group}))
		}
	}
	return objects, nil
}

// subject returns the subject of bindings for an identity.
func (i Identity) subject() rbacv1.Subject {
	if namespace, account, err := serviceaccount.SplitUsername(i.User); err == nil {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}
	}
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: i.User}
}

// binding returns a binding of a subject to a ClusterRole.
func binding(name, role string, to rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{to},
	}
}

// ingressRole returns the role of the controller of Ingresses.
func ingressRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: ingressName},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses", "ingressclasses"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses/status"}, Verbs: []string{"patch", "update"}},
		},
	}
}
