package testserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
)

// deletedKinds are the kinds of objects to delete before each test, in this order. The
// definitions of custom kinds are last, because deleting one deletes its objects.
var deletedKinds = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "Event"},
	{Version: "v1", Kind: "Node"},
	{Version: "v1", Kind: "Namespace"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
}

// deleteObjects deletes the objects of earlier tests, and waits until they are gone. It creates the
// service account that pods use, as there is no controller that would.
func deleteObjects(ctx context.Context, config *rest.Config) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	for _, gvk := range deletedKinds {
		if err := deleteKind(ctx, c, gvk); err != nil {
			return fmt.Errorf("cannot delete the objects of kind %s: %w", gvk.Kind, err)
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	return client.IgnoreAlreadyExists(c.Create(ctx, account))
}

// deleteKind deletes the objects of a kind until there is none.
func deleteKind(ctx context.Context, c client.Client, gvk schema.GroupVersionKind) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := c.List(ctx, list); err != nil {
			return false, err
		}
		list.Items = slices.DeleteFunc(list.Items, isSystem)
		for i := range list.Items {
			if err := deleteObject(ctx, c, &list.Items[i]); client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}
		return len(list.Items) == 0, nil
	})
}

// isSystem reports whether an object is the API server's own.
func isSystem(m metav1.PartialObjectMetadata) bool {
	return strings.HasPrefix(m.Namespace, "kube-") ||
		m.Kind == "Namespace" && (m.Name == "default" || strings.HasPrefix(m.Name, "kube-")) ||
		m.Kind == "ServiceAccount" && m.Namespace == "default" && m.Name == "default" ||
		m.Kind == "Service" && m.Namespace == "default" && m.Name == "kubernetes" ||
		m.Kind == "ConfigMap" && m.Name == "kube-root-ca.crt"
}

// deleteObject deletes an object. It does what the controllers that are not there would do: it
// removes the finalizers, except the finalizer of definitions, which the API server removes.
func deleteObject(ctx context.Context, c client.Client, m *metav1.PartialObjectMetadata) error {
	if len(m.Finalizers) > 0 && m.Kind != "CustomResourceDefinition" {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := c.Patch(ctx, m, patch); err != nil {
			return err
		}
	}
	if err := c.Delete(ctx, m, client.GracePeriodSeconds(0)); err != nil {
		return err
	}
	if m.Kind != "Namespace" {
		return nil
	}
	var namespace corev1.Namespace
	if err := c.Get(ctx, client.ObjectKeyFromObject(m), &namespace); err != nil {
		return err
	}
	namespace.Spec.Finalizers = nil
	return c.SubResource("finalize").Update(ctx, &namespace)
}
