package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// PersistentVolumeClaims describes the kind PersistentVolumeClaim.
func PersistentVolumeClaims() kinds.Kind {
	return kinds.Of[*corev1.PersistentVolumeClaim]{
		Type: &corev1.PersistentVolumeClaim{}, List: &corev1.PersistentVolumeClaimList{},
		Plural: "persistentvolumeclaims", ShortNames: []string{"pvc"},
		ReturnsDeleted: true,
		Name:           fieldrules.NameIsSubdomain,
		Default:        podspec.SetClaimDefaults,
		Prepare: func(_ context.Context, c, _ *corev1.PersistentVolumeClaim) {
			fieldrules.DefaultValue(&c.Status.Phase, corev1.ClaimPending)
		},
		Validate: func(c *corev1.PersistentVolumeClaim) field.ErrorList {
			return podspec.ValidateClaim(&c.Spec, &fieldrules.Spec)
		},
		ValidateUpdate: validateClaimUpdate,
		Status:         true,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Status", "string", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["phase"]),
			columns.Column("Volume", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeName"]),
			columns.Column("Capacity", "string", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["capacity"]),
			columns.Column("Access Modes", "string", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["accessModes"]),
			columns.Column("StorageClass", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["storageClassName"]),
			columns.Column("VolumeAttributesClass", "string",
				corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeAttributesClassName"]),
			columns.Wide("VolumeMode", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeMode"]),
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
		capacity, modes = c.Status.Capacity.Storage().String(), podspec.AccessCell(c.Status.AccessModes)
	}
	mode := "<unset>"
	if c.Spec.VolumeMode != nil {
		mode = string(*c.Spec.VolumeMode)
	}
	return []any{status, c.Spec.VolumeName, capacity, modes, columns.OrEmpty(c.Spec.StorageClassName),
		columns.OrUnset(c.Spec.VolumeAttributesClassName), mode}
}

// validateClaimUpdate checks that only the volume is set, or the request of a bound claim
// increased.
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
			errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("resources").Child("requests",
				"storage"), "field can not be less than status.capacity"))
		}
	}
	if !apiequality.Semantic.DeepEqual(*now, old.Spec) {
		errs = append(errs, field.Forbidden(fieldrules.Spec.Field(),
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	return errs
}
