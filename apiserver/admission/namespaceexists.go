package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/admission/stored"
)

// namespaceExists rejects writes in a namespace that does not exist.
//
//upstream:plugin/pkg/admission/namespace/exists.Exists
type namespaceExists struct {
	*admission.Handler
	namespaces stored.Namespaces
}

var _ admission.ValidationInterface = namespaceExists{}

func newNamespaceExists(e Environment) admission.Interface {
	return namespaceExists{admission.NewHandler(admission.Create, admission.Update, admission.Delete), stored.NewNamespaces(e)}
}

// Validate implements [admission.ValidationInterface].
func (n namespaceExists) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !inNamespace(a) {
		return nil
	}
	_, err := n.namespaces.Get(ctx, "", a.GetNamespace())
	if err != nil && !errors.IsNotFound(err) {
		return errors.NewInternalError(err)
	}
	return err
}

// inNamespace reports whether a request is for an object in a namespace. It returns false for the namespace itself.
func inNamespace(a admission.Attributes) bool {
	return a.GetNamespace() != "" && a.GetKind().GroupKind() != corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind()
}

// namespaceAutoProvision creates the namespace of a new object if it does not exist.
//
//upstream:plugin/pkg/admission/namespace/autoprovision.Provision
type namespaceAutoProvision struct {
	*admission.Handler
	namespaces stored.Namespaces
}

var _ admission.MutationInterface = namespaceAutoProvision{}

func newNamespaceAutoProvision(e Environment) admission.Interface {
	return namespaceAutoProvision{admission.NewHandler(admission.Create), stored.NewNamespaces(e)}
}

// Admit implements [admission.MutationInterface].
func (n namespaceAutoProvision) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.IsDryRun() || !inNamespace(a) {
		return nil
	}
	_, err := n.namespaces.Get(ctx, "", a.GetNamespace())
	if errors.IsNotFound(err) {
		creater, ok := n.namespaces.Storage().(rest.Creater)
		if !ok {
			return admission.NewForbidden(a, err)
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.GetNamespace(),
			Labels: map[string]string{corev1.LabelMetadataName: a.GetNamespace()}}}
		_, err = creater.Create(n.namespaces.Scope(ctx, ""), namespace, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
		if errors.IsAlreadyExists(err) {
			return nil
		}
	}
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}
