package kinds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func persistentVolumeClaims() Kind {
	return Of[*corev1.PersistentVolumeClaim]{
		Type: &corev1.PersistentVolumeClaim{}, List: &corev1.PersistentVolumeClaimList{},
		Plural: "persistentvolumeclaims", ShortNames: []string{"pvc"},
		ReturnsDeleted: true,
		Name:           subdomain,
		Default:        defaultClaim,
		Prepare: func(_ context.Context, c, _ *corev1.PersistentVolumeClaim) {
			orSet(&c.Status.Phase, corev1.ClaimPending)
		},
		Validate:       func(c *corev1.PersistentVolumeClaim) field.ErrorList { return claimSpec(&c.Spec, &specAt) },
		ValidateUpdate: validateClaimUpdate,
		Status:         true,
		Columns: []metav1.TableColumnDefinition{
			column("Status", "string", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["phase"]),
			column("Volume", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeName"]),
			column("Capacity", "string", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["capacity"]),
			column("Access Modes", "string", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["accessModes"]),
			column("StorageClass", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["storageClassName"]),
			column("VolumeAttributesClass", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeAttributesClassName"]),
			wide("VolumeMode", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeMode"]),
		},
		Row: claimRow,
	}
}

func claimRow(c *corev1.PersistentVolumeClaim) []any {
	status := string(c.Status.Phase)
	if c.DeletionTimestamp != nil {
		status = "Terminating"
	}
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" {
		capacity, modes = c.Status.Capacity.Storage().String(), accessCell(c.Status.AccessModes)
	}
	mode := "<unset>"
	if c.Spec.VolumeMode != nil {
		mode = string(*c.Spec.VolumeMode)
	}
	return []any{status, c.Spec.VolumeName, capacity, modes, orEmpty(c.Spec.StorageClassName), orUnset(c.Spec.VolumeAttributesClassName), mode}
}

// validateClaimUpdate lets a claim be bound to a volume, and ask for more storage once it is.
func validateClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	now := c.Spec.DeepCopy()
	if old.Spec.VolumeName == "" {
		now.VolumeName = ""
	}
	if old.Spec.StorageClassName == nil {
		now.StorageClassName = nil
	}
	now.VolumeAttributesClassName = old.Spec.VolumeAttributesClassName
	var errs field.ErrorList
	asked, had := now.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if old.Status.Phase == corev1.ClaimBound && now.Resources.Requests != nil {
		now.Resources.Requests[corev1.ResourceStorage] = had.DeepCopy()
		if asked.Cmp(had) < 0 {
			errs = append(errs, field.Forbidden(specAt.of("resources").Child("requests", "storage"), "field can not be less than status.capacity"))
		}
	}
	if !apiequality.Semantic.DeepEqual(*now, old.Spec) {
		errs = append(errs, field.Forbidden(specAt.path(), "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	return errs
}
