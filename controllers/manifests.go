package controllers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"flyball.dev/controllers/localpath"
	"flyball.dev/ctrl/client"
)

// Manifests returns the objects that the selected controllers need before they start, in addition to the objects that
// every cluster has. These are the service accounts, the provisioner's default StorageClass, and the binding of the
// provisioner's service account to system:persistent-volume-provisioner. Unless the API server authorizes nodes itself,
// the binding of the node's user to system:node is among them. Manifests fails if Without has an unknown name.
func (o *Options) Manifests(nodeAuthorizer bool) ([]client.Object, error) {
	selected, err := o.Names()
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	accounts := map[string]bool{}
	for _, d := range descriptors {
		name, ok := d.identity.serviceAccount()
		if !ok || accounts[name] || !slices.Contains(selected, d.name) {
			continue
		}
		accounts[name] = true
		objects = append(objects, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}})
	}
	if slices.Contains(selected, "local-path-provisioner") {
		objects = append(objects, localpath.DefaultStorageClass(),
			binding("local-path-provisioner-bind", "system:persistent-volume-provisioner", provisionerIdentity))
	}
	if slices.Contains(selected, "pods") && !nodeAuthorizer {
		objects = append(objects, binding(nodeIdentity.User, "system:node", nodeIdentity))
	}
	return objects, nil
}

// binding returns a binding of an identity to a ClusterRole.
func binding(name, role string, to Identity) *rbacv1.ClusterRoleBinding {
	subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: to.User}
	if namespace, account, err := serviceaccount.SplitUsername(to.User); err == nil {
		subject = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}
	}
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
}
