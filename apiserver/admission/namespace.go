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

// immortal are the namespaces that the control plane itself lives in.
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// namespaceLifecycle lets nothing be created in a namespace that is absent or terminating.
type namespaceLifecycle struct {
	*admission.Handler
	get func(ctx context.Context, name string) (*corev1.Namespace, error)
}

var _ admission.MutationInterface = (*namespaceLifecycle)(nil)

func newNamespaceLifecycle(o Objects) admission.Interface {
	namespaces := newStored[*corev1.Namespace](o, corev1.SchemeGroupVersion.WithResource("namespaces"))
	return &namespaceLifecycle{
		Handler: admission.NewHandler(admission.Create, admission.Delete),
		get: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return namespaces.get(ctx, "", name)
		},
	}
}

// Admit changes nothing. It comes before the plugins that look for what the namespace should have.
func (n *namespaceLifecycle) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	isNamespace := a.GetKind().GroupKind() == (corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind())
	switch {
	case a.GetOperation() == admission.Delete:
		if isNamespace && slices.Contains(immortal, a.GetName()) {
			return errors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), fmt.Errorf("this namespace may not be deleted"))
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
	forbidden := admission.NewForbidden(a, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace.Name))
	if status, ok := forbidden.(*errors.StatusError); ok {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", namespace.Name),
			Field:   "metadata.namespace",
		})
	}
	return forbidden
}
