package dev

import (
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"flyball.dev/ctrl/client"
)

// account is the service account that the operator acts as.
type account struct{ namespace, name string }

// user returns the name of the account as a user.
func (a account) user() string { return "system:serviceaccount:" + a.namespace + ":" + a.name }

// String returns the account as NAMESPACE/NAME.
func (a account) String() string { return a.namespace + "/" + a.name }

// roleFile is the name of the generated RBAC manifest.
const roleFile = "role.yaml"

// accountOf returns the service account that bindings give the generated roles to. Otherwise it returns the service
// account of the workloads, if there is only one and bindings give it a role, or nil.
func accountOf(sources []source, workloads []account) *account {
	var generated []rbacv1.RoleRef
	for _, s := range sources {
		if filepath.Base(s.file) == roleFile {
			kind := s.object.GetObjectKind().GroupVersionKind().Kind
			generated = append(generated, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: s.object.GetName()})
		}
	}
	for _, s := range sources {
		role, subjects := binding(s.object)
		if !slices.Contains(generated, role) {
			continue
		}
		for _, subject := range subjects {
			if subject.Kind == rbacv1.ServiceAccountKind {
				return &account{subject.Namespace, subject.Name}
			}
		}
	}
	slices.SortFunc(workloads, func(a, b account) int { return strings.Compare(a.String(), b.String()) })
	if workloads = slices.Compact(workloads); len(workloads) != 1 {
		return nil
	}
	for _, s := range sources {
		_, subjects := binding(s.object)
		if slices.ContainsFunc(subjects, func(subject rbacv1.Subject) bool {
			return subject.Kind == rbacv1.ServiceAccountKind && account{subject.Namespace, subject.Name} == workloads[0]
		}) {
			return &workloads[0]
		}
	}
	return nil
}

// workloadAccount returns the service account of the pods of a workload, or nil for other objects.
func workloadAccount(d document) *account {
	var workload struct {
		Kind     string
		Metadata struct{ Namespace string }
		Spec     struct {
			Template struct {
				Spec struct{ ServiceAccountName string }
			}
		}
	}
	if yaml.Unmarshal(d.content, &workload) != nil || !slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, workload.Kind) {
		return nil
	}
	if name := workload.Spec.Template.Spec.ServiceAccountName; name != "" {
		return &account{workload.Metadata.Namespace, name}
	}
	return nil
}

// binding returns the role and the subjects of a binding, and zero values for other objects.
func binding(obj client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
	switch b := obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return b.RoleRef, b.Subjects
	case *rbacv1.RoleBinding:
		return b.RoleRef, b.Subjects
	}
	return rbacv1.RoleRef{}, nil
}

// operatorConfig returns a kubeconfig with a token instead of the original credentials. The user impersonates a service
// account unless as is nil.
func operatorConfig(content []byte, token string, as *account) ([]byte, error) {
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, err
	}
	for name := range config.AuthInfos {
		info := &clientcmdapi.AuthInfo{Token: token}
		if as != nil {
			info.Impersonate = as.user()
		}
		config.AuthInfos[name] = info
	}
	return clientcmd.Write(*config)
}
