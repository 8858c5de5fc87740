package admission

import (
	"context"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// TestAccessReviewsInAnyNamespace: whether a namespace exists must not be told to everybody.
func TestAccessReviewsInAnyNamespace(t *testing.T) {
	plugin := &namespaceLifecycle{
		Handler: admission.NewHandler(admission.Create, admission.Delete),
		get: func(_ context.Context, name string) (*corev1.Namespace, error) {
			return nil, errors.NewNotFound(corev1.Resource("namespaces"), name)
		},
	}
	review := authorizationv1.SchemeGroupVersion
	for resource, refused := range map[schema.GroupVersionResource]bool{
		review.WithResource("localsubjectaccessreviews"):                    false,
		corev1.SchemeGroupVersion.WithResource("localsubjectaccessreviews"): true,
	} {
		err := plugin.Admit(t.Context(), admission.NewAttributesRecord(nil, nil, resource.GroupVersion().WithKind("LocalSubjectAccessReview"), "absent", "",
			resource, "", admission.Create, nil, false, nil), nil)
		if refused != (err != nil) {
			t.Errorf("%s: %v", resource, err)
		}
	}
}

func TestNamespaceLifecycle(t *testing.T) {
	now := metav1.Now()
	stored := map[string]*corev1.Namespace{
		"active":      {ObjectMeta: metav1.ObjectMeta{Name: "active"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		"terminating": {ObjectMeta: metav1.ObjectMeta{Name: "terminating", DeletionTimestamp: &now}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}},
	}
	plugin := &namespaceLifecycle{
		Handler: admission.NewHandler(admission.Create, admission.Delete),
		get: func(_ context.Context, name string) (*corev1.Namespace, error) {
			if n, ok := stored[name]; ok {
				return n, nil
			}
			return nil, errors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
		},
	}
	for _, tc := range []struct {
		name                               string
		operation                          admission.Operation
		kind, resource, namespace, message string
		reason                             metav1.StatusReason
	}{
		{"create in an active namespace", admission.Create, "Pod", "pods", "active", "", ""},
		{"create in an absent namespace", admission.Create, "Pod", "pods", "absent", `namespaces "absent" not found`, metav1.StatusReasonNotFound},
		{"create in a terminating namespace", admission.Create, "Pod", "pods", "terminating", "because it is being terminated", metav1.StatusReasonForbidden},
		{"update in a terminating namespace", admission.Update, "Pod", "pods", "terminating", "", ""},
		{"delete in a terminating namespace", admission.Delete, "Pod", "pods", "terminating", "", ""},
		{"create a cluster-scoped object", admission.Create, "Node", "nodes", "", "", ""},
		{"create a namespace", admission.Create, "Namespace", "namespaces", "new", "", ""},
		{"delete a namespace", admission.Delete, "Namespace", "namespaces", "active", "", ""},
		{"delete the default namespace", admission.Delete, "Namespace", "namespaces", "default", "this namespace may not be deleted", metav1.StatusReasonForbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := "x"
			if tc.kind == "Namespace" {
				name = tc.namespace
			}
			if !plugin.Handles(tc.operation) {
				if tc.message != "" {
					t.Error("the operation is not handled")
				}
				return
			}
			err := plugin.Admit(t.Context(), admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind(tc.kind), tc.namespace, name,
				corev1.SchemeGroupVersion.WithResource(tc.resource), "", tc.operation, nil, false, nil), nil)
			switch {
			case tc.message == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.message != "" && (err == nil || errors.ReasonForError(err) != tc.reason || !strings.Contains(err.Error(), tc.message)):
				t.Errorf("got %v, want %s: … %s", err, tc.reason, tc.message)
			}
			if tc.namespace == "terminating" && err != nil && !errors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				t.Errorf("%v does not say that the namespace is terminating", err)
			}
		})
	}
}
