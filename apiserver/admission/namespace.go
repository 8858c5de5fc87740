package admission

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
)

// immortalNamespaces cannot be deleted.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.Register
var immortalNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// accessReviews are allowed in every namespace, because rejecting them would reveal whether a namespace exists.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.accessReviewResources
var accessReviews = authorizationv1.Resource("localsubjectaccessreviews")

// namespaceLifecycle rejects new objects in missing or terminating namespaces, and the deletion of system namespaces.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.Lifecycle
type namespaceLifecycle struct {
	*admission.Handler
	get func(ctx context.Context, name string) (*corev1.Namespace, error)
}

var _ admission.MutationInterface = (*namespaceLifecycle)(nil)

func newNamespaceLifecycle(o Environment) admission.Interface {
	namespaces := stored.NewReader[*corev1.Namespace](o, corev1.SchemeGroupVersion.WithResource("namespaces"))
	return &namespaceLifecycle{
		Handler: admission.NewHandler(admission.Create, admission.Delete),
		get: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return namespaces.Get(ctx, "", name)
		},
	}
}

// Admit validates in the mutating phase, as in kube-apiserver, because other mutating plugins need the namespace.
func (n *namespaceLifecycle) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	isNamespace := a.GetKind().GroupKind() == (corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind())
	switch {
	case a.GetOperation() == admission.Delete:
		if isNamespace && slices.Contains(immortalNamespaces, a.GetName()) {
			return errors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
				fmt.Errorf("this namespace may not be deleted"))
		}
		return nil
	case a.GetNamespace() == "" || isNamespace || a.GetResource().GroupResource() == accessReviews:
		return nil
	}
	namespace, err := n.get(ctx, a.GetNamespace())
	if err != nil {
		return err
	}
	if !IsTerminating(namespace) {
		return nil
	}
	return NamespaceTerminating(namespace.Name, func(err error) error { return admission.NewForbidden(a, err) })
}

// IsTerminating reports whether a namespace is terminating, so that no objects can be created in it.
func IsTerminating(n *corev1.Namespace) bool {
	return n.DeletionTimestamp != nil || n.Status.Phase == corev1.NamespaceTerminating
}

// NamespaceTerminating returns the error for creating an object in a terminating namespace. forbidden returns a
// Forbidden error that names the object.
func NamespaceTerminating(namespace string, forbidden func(error) error) error {
	err := forbidden(fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	if status, ok := err.(*errors.StatusError); ok {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", namespace),
			Field:   "metadata.namespace",
		})
	}
	return err
}
