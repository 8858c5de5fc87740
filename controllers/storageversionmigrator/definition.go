package storageversionmigrator

import (
	"context"
	"fmt"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"flyball.dev/ctrl/client"
)

// markDefinition sets the condition StorageMigrating of the definition of a custom resource.
//
//upstream:pkg/controller/storageversionmigrator.MigrationRunnerController.markAsActive
func (r *reconciler) markDefinition(ctx context.Context, m *storagemigrationv1.StorageVersionMigration) error {
	return r.applyDefinition(ctx, m, func(crd *unstructured.Unstructured) map[string]any {
		return map[string]any{"conditions": []any{
			migrating(crd, apiextensionsv1.ConditionTrue, runningReason, fmt.Sprintf("Migration %s is running", m.Name)),
		}}
	})
}

// unmarkDefinition ends the condition StorageMigrating. If the migration has succeeded and the definition has not changed
// since it began, the storage version is the only stored version. Here a migration that has failed keeps the stored
// versions; kube-controller-manager drops them.
//
//upstream:pkg/controller/storageversionmigrator.MigrationRunnerController.finishCRDMigration
func (r *reconciler) unmarkDefinition(ctx context.Context, m *storagemigrationv1.StorageVersionMigration) error {
	return r.applyDefinition(ctx, m, func(crd *unstructured.Unstructured) map[string]any {
		unchanged := observedGeneration(crd) == crd.GetGeneration()
		reason, message := "MigrationFailed", "The migration has failed"
		succeeded := meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationSucceeded))
		if succeeded {
			reason, message = "MigrationSucceeded", "The migration has succeeded"
			if unchanged {
				message += " and the stored versions have been updated"
			} else {
				message += " but the stored versions have not been updated due to a generation mismatch"
			}
		}
		status := map[string]any{"conditions": []any{migrating(crd, apiextensionsv1.ConditionFalse, reason, message)}}
		if version := storageVersion(crd); succeeded && unchanged && version != "" {
			status["storedVersions"] = []any{version}
		}
		return status
	})
}

// applyDefinition applies a status to the definition of the resource of a migration, if there is one. The definition must
// not change meanwhile.
func (r *reconciler) applyDefinition(ctx context.Context, m *storagemigrationv1.StorageVersionMigration,
	status func(*unstructured.Unstructured) map[string]any) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		name := m.Spec.Resource.Resource + "." + m.Spec.Resource.Group
		if err := r.live.Get(ctx, client.ObjectKey{Name: name}, crd); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		applied := &unstructured.Unstructured{Object: map[string]any{"status": status(crd)}}
		applied.SetGroupVersionKind(crd.GroupVersionKind())
		applied.SetName(name)
		applied.SetResourceVersion(crd.GetResourceVersion())
		err := r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(fieldOwner), client.ForceOwnership)
		return client.IgnoreNotFound(err) // the definition may be deleted since
	})
}

// fieldOwner owns the condition of definitions.
//
//upstream:pkg/controller/storageversionmigrator.MigrationRunnerControllerName
const fieldOwner = "migration-runner-controller"

// migrating returns the condition StorageMigrating.
func migrating(crd *unstructured.Unstructured, status apiextensionsv1.ConditionStatus, reason, message string) map[string]any {
	return map[string]any{
		"type": string(apiextensionsv1.StorageMigrating), "status": string(status), "reason": reason, "message": message,
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": crd.GetGeneration(),
	}
}

// observedGeneration returns the generation of a definition at the start of the migration, or zero.
func observedGeneration(crd *unstructured.Unstructured) int64 {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == string(apiextensionsv1.StorageMigrating) {
			generation, _, _ := unstructured.NestedInt64(c, "observedGeneration")
			return generation
		}
	}
	return 0
}

// storageVersion returns the version in which the objects of a definition are stored.
func storageVersion(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["storage"] == true {
			name, _ := v["name"].(string)
			return name
		}
	}
	return ""
}
