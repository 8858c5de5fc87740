package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

// immortalNamespaces cannot be deleted.
var immortalNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// namespaceLifecycle refuses creates in a namespace that does not exist or is terminating, and the
// deletion of system namespaces.
type namespaceLifecycle struct {
	*admission.Handler
	get func(ctx context.Context, name string) (*corev1.Namespace, error)
}

var _ admission.MutationInterface = (*namespaceLifecycle)(nil)

func newNamespaceLifecycle(o Environment) admission.Interface {
	namespaces := newStored[*corev1.Namespace](o, corev1.SchemeGroupVersion.WithResource("namespaces"))
	return &namespaceLifecycle{
		Handler: admission.NewHandler(admission.Create, admission.Delete),
		get: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return namespaces.get(ctx, "", name)
		},
	}
}

// Admit validates in the mutating phase, as in kube-apiserver, since mutating plugins need the
// namespace.
func (n *namespaceLifecycle) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	isNamespace := a.GetKind().GroupKind() == (corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind())
	switch {
	case a.GetOperation() == admission.Delete:
		if isNamespace && slices.Contains(immortalNamespaces, a.GetName()) {
			return errors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
				fmt.Errorf("this namespace may not be deleted"))
		}
		return nil
	case a.GetNamespace() == "" || isNamespace:
		return nil
	}
	namespace, err := n.get(ctx, a.GetNamespace())
	if err != nil {
		return err
	}
	if namespace.DeletionTimestamp == nil && namespace.Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	forbidden := admission.NewForbidden(a,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace.Name))
	if status, ok := forbidden.(*errors.StatusError); ok {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", namespace.Name),
			Field:   "metadata.namespace",
		})
	}
	return forbidden
}
