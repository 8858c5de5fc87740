package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"flyball.dev/cmd/flyball/internal/projectfile"
	"flyball.dev/ctrl/client"
)

// read reads the objects to install, and returns lines about their origin and about the operator's account. If the
// account is unknown, the operator is an administrator, and read returns no roles.
func (in *installer) read() (all []source, lines []string, err error) {
	if in.convert, err = conversionKinds("."); err != nil {
		return nil, nil, err
	}
	documents, line, err := in.manifests.read()
	if line != "" {
		lines = append(lines, line)
	}
	if err != nil {
		return nil, lines, err
	}
	all, workloads, err := decodeAll(documents)
	if err != nil {
		return nil, lines, err
	}
	for _, s := range all {
		if err := in.connect(s.object); err != nil {
			return nil, lines, fmt.Errorf("%s: %w", s.file, err)
		}
	}
	if in.account = nil; !in.asAdmin {
		in.account = accountOf(all, workloads)
	}
	all, line = withRoles(all, in.account, in.manifests.source())
	if line != "" && !in.asAdmin {
		lines = append(lines, line)
	}
	return all, lines, nil
}

// decodeAll returns the objects of documents that are installed, and the accounts of the workloads among them.
func decodeAll(documents []document) (all []source, workloads []account, err error) {
	for _, d := range documents {
		s, err := decode(d)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", d.file, err)
		}
		if s != nil {
			all = append(all, *s)
		} else if a := workloadAccount(d); a != nil {
			workloads = append(workloads, *a)
		}
	}
	return all, workloads, nil
}

// withRoles returns the objects for an operator with an account: the roles in its namespace, or no roles for an administrator. The line
// says which.
func withRoles(all []source, account *account, origin string) (chosen []source, line string) {
	if account != nil {
		setNamespaces(all, account.namespace)
		return all, fmt.Sprintf("the operator acts as the service account %s, with the roles in %s", account, origin)
	}
	if slices.ContainsFunc(all, isRole) {
		line = fmt.Sprintf("the operator acts as an administrator: no binding in %s gives the role in %s, or a role, "+
			"to the service account of a Deployment", origin, roleFile)
	}
	return slices.DeleteFunc(all, isRole), line
}

// isRole reports whether an object is part of RBAC: a role, a binding or a service account.
func isRole(s source) bool {
	switch s.object.(type) {
	case *corev1.ServiceAccount, *rbacv1.Role, *rbacv1.RoleBinding, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
		return true
	}
	return false
}

// setNamespaces sets the namespace of namespaced objects without one, like the kustomization that deploys them.
func setNamespaces(all []source, namespace string) {
	for _, s := range all {
		switch s.object.(type) {
		case *corev1.ServiceAccount, *rbacv1.Role, *rbacv1.RoleBinding:
			if s.object.GetNamespace() == "" {
				s.object.SetNamespace(namespace)
			}
		}
	}
}

// decode returns the object of a document, or nil if it is of a kind that is not installed.
func decode(d document) (*source, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(d.content, &kind); err != nil {
		return nil, err
	}
	newObject := installedKinds[kind]
	if newObject == nil {
		return nil, nil
	}
	obj := newObject()
	if err := yaml.UnmarshalStrict(d.content, obj); err != nil {
		return nil, err
	}
	return &source{d.file, obj}, nil
}

// connect makes the API server call the webhooks of an object at the operator's address.
func (in *installer) connect(obj client.Object) error {
	connect := func(name string, c *admissionv1.WebhookClientConfig) error {
		if c.URL != nil {
			return nil
		}
		if c.Service == nil || c.Service.Path == nil {
			return fmt.Errorf("webhook %s has neither a URL nor a service with a path", name)
		}
		url := "https://" + in.address + *c.Service.Path
		c.URL, c.Service, c.CABundle = &url, nil, in.ca
		return nil
	}
	var errs []error
	switch o := obj.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			errs = append(errs, connect(o.Webhooks[i].Name, &o.Webhooks[i].ClientConfig))
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			errs = append(errs, connect(o.Webhooks[i].Name, &o.Webhooks[i].ClientConfig))
		}
	case *apiextensionsv1.CustomResourceDefinition:
		kind := schema.GroupKind{Group: o.Spec.Group, Kind: o.Spec.Names.Kind}
		if in.convert[kind] || o.Spec.Conversion != nil && o.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
			url := "https://" + in.address + "/convert"
			o.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: in.ca},
					ConversionReviewVersions: []string{"v1"},
				},
			}
		}
	}
	return errors.Join(errs...)
}

// conversionKinds returns the kinds with conversion webhooks in the PROJECT file of a folder, if the file exists. The
// generated definitions do not list the webhooks, which come from kustomize patches.
func conversionKinds(folder string) (map[schema.GroupKind]bool, error) {
	project, err := projectfile.Read(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kinds := map[schema.GroupKind]bool{}
	for _, r := range project.Resources {
		if r.Webhooks != nil && r.Webhooks.Conversion {
			kinds[schema.GroupKind{Group: r.QualifiedGroup(), Kind: r.Kind}] = true
		}
	}
	return kinds, nil
}
