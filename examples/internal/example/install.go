package example

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
)

// newClient returns a client without a cache that knows the kinds of the example, and
// CustomResourceDefinitions.
func (e *Example) newClient(cfg *rest.Config) (client.WithWatch, error) {
	scheme, err := e.NewScheme()
	if err == nil {
		err = apiextensionsv1.AddToScheme(scheme)
	}
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: scheme})
}

// manifests decodes the files of a folder, one object each, in the order of their names.
func manifests[T any](config fs.FS, folder string) ([]*T, error) {
	files, err := fs.ReadDir(config, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*T
	for _, f := range files {
		content, err := fs.ReadFile(config, path.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		obj := new(T)
		if err := yaml.UnmarshalStrict(content, obj); err != nil {
			return nil, fmt.Errorf("%s/%s: %w", folder, f.Name(), err)
		}
		all = append(all, obj)
	}
	return all, nil
}

// install creates the CustomResourceDefinitions and waits until they are established, and creates the
// policies.
func (e *Example) install(ctx context.Context, c client.WithWatch) error {
	definitions, err := manifests[apiextensionsv1.CustomResourceDefinition](e.Config, "crd/bases")
	if err != nil {
		return err
	}
	for _, crd := range definitions {
		if err := c.Create(ctx, crd); err != nil {
			return err
		}
	}
	for _, crd := range definitions {
		if err := await.Object(ctx, c, crd, func(d *apiextensionsv1.CustomResourceDefinition) string {
			for _, condition := range d.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return ""
				}
			}
			return "the definition is not established"
		}); err != nil {
			return err
		}
	}
	policies, err := manifests[unstructured.Unstructured](e.Config, "policy")
	if err != nil {
		return err
	}
	for _, policy := range policies {
		if err := c.Create(ctx, policy); err != nil {
			return err
		}
	}
	return nil
}

// asServiceAccount creates a service account with the permissions of config/rbac/role.yaml, and
// the permissions of every operator: events and leases of its namespace. It returns a config with which the
// operator acts as that account, so that it can do no more than on a cluster.
func (e *Example) asServiceAccount(ctx context.Context, c client.Client, cfg *rest.Config) (*rest.Config, error) {
	const namespace = metav1.NamespaceDefault
	name := e.Name + "-operator"
	roles, err := manifests[rbacv1.ClusterRole](e.Config, "rbac")
	if err != nil {
		return nil, err
	}
	roles = append(roles, e.runtimeRole())
	objects := []client.Object{&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
	for i, role := range roles {
		role.Name = fmt.Sprintf("%s-%d", name, i)
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}}
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
		binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
		objects = append(objects, role, binding)
	}
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	as := rest.CopyConfig(cfg)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return as, nil
}

// runtimeRole returns what the manager needs and no marker of a controller grants: leases for the
// leader election and, if it installs its own webhooks, their configurations.
func (e *Example) runtimeRole() *rbacv1.ClusterRole {
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: all},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}
	if e.Webhooks != nil {
		role.Rules = append(role.Rules,
			rbacv1.PolicyRule{APIGroups: []string{"admissionregistration.k8s.io"}, Verbs: all,
				Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}},
			rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Verbs: all,
				Resources: []string{"customresourcedefinitions"}})
	}
	return role
}
