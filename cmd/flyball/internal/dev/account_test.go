package dev

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

// rbac are the manifests of a project: a role that is generated, and one for the operator's namespace.
var rbac = map[string]string{
	"role.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: manager-role}\n" +
		"rules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list]}]\n",
	"role_binding.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: manager}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager-role}\n" +
		"subjects: [{kind: ServiceAccount, name: manager, namespace: system}]\n",
	"leader_election.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: leases, namespace: system}\n" +
		"rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [update]}]\n---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: leases, namespace: system}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leases}\n" +
		"subjects: [{kind: ServiceAccount, name: manager, namespace: system}]\n",
	"service_account.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: manager, namespace: system}\n",
}

// TestRoles checks that the operator has the permissions of its roles, also after a change, and that an administrator
// has all permissions.
func TestRoles(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	folder := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range rbac {
		write(name, content)
	}
	in, err := newInstaller(plane.Config(), &reader{folders: []string{folder}})
	if err != nil {
		t.Fatal(err)
	}
	in.asAdmin = true
	install := func(want ...string) {
		t.Helper()
		if changes, err := in.install(t.Context()); err != nil || !slices.Equal(changes, want) {
			t.Errorf("%q, %v", changes, err)
		}
	}
	allowed := func(verb, group, resource, namespace string) bool {
		t.Helper()
		content, err := operatorConfig(plane.Kubeconfig(), "", in.account)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := clientcmd.Load(content)
		if err != nil {
			t.Fatal(err)
		}
		config := plane.Config() // of an administrator, without a token
		config.Impersonate.UserName = loaded.AuthInfos[loaded.Contexts[loaded.CurrentContext].AuthInfo].Impersonate
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace}}}
		review, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}

	install()
	if !allowed("delete", "", "secrets", "") {
		t.Error("an administrator may not delete secrets")
	}
	in.asAdmin = false
	install("the operator acts as the service account system/manager, with the roles in " + folder)
	for request, want := range map[[4]string]bool{
		{"list", "", "configmaps", ""}:                             true,
		{"update", "", "configmaps", ""}:                           false,
		{"list", "", "secrets", ""}:                                false,
		{"update", "coordination.k8s.io", "leases", "system"}:      true,
		{"update", "coordination.k8s.io", "leases", "kube-system"}: false,
	} {
		if got := allowed(request[0], request[1], request[2], request[3]); got != want {
			t.Errorf("%q: %v", request, got)
		}
	}
	write("role.yaml", strings.Replace(rbac["role.yaml"], "[get, list]", "[update]", 1))
	install("ClusterRole manager-role updated")
	if !allowed("update", "", "configmaps", "") || allowed("list", "", "configmaps", "") {
		t.Error("the changed role has no effect")
	}

	// Without a binding, as in projects that have them elsewhere, nothing is known of the account.
	if err := os.Remove(filepath.Join(folder, "role_binding.yaml")); err != nil {
		t.Fatal(err)
	}
	install("the operator acts as an administrator: no binding in " + folder + " gives the role in role.yaml, or a role, to the service account of a Deployment")
	if !allowed("delete", "", "secrets", "") {
		t.Error("without a binding, the operator is no administrator")
	}

	// A Deployment has an account too.
	write("deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: manager, namespace: system}\n"+
		"spec: {template: {spec: {serviceAccountName: manager}}}\n")
	install("the operator acts as the service account system/manager, with the roles in " + folder)
}
