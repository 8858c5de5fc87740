package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// PersistentVolumeClaims describes the kind PersistentVolumeClaim.
//
//upstream:pkg/registry/core/persistentvolumeclaim.persistentvolumeclaimStrategy
//upstream:pkg/registry/core/persistentvolumeclaim.persistentvolumeclaimStatusStrategy
//upstream:pkg/registry/core/persistentvolumeclaim/storage.REST.ShortNames
//upstream:pkg/api/persistentvolumeclaim.DropDisabledFieldsFromStatus
//upstream:pkg/printers/internalversion.AddHandlers
func PersistentVolumeClaims() kinds.Kind {
	return kinds.Of[*corev1.PersistentVolumeClaim]{
		Type: &corev1.PersistentVolumeClaim{}, List: &corev1.PersistentVolumeClaimList{},
		Plural: "persistentvolumeclaims", ShortNames: []string{"pvc"},
		ReturnsDeleted: true,
		Name:           fieldrules.NameIsSubdomain,
		Default:        podspec.SetClaimDefaults,
		Prepare: func(_ context.Context, c, old *corev1.PersistentVolumeClaim) {
			fieldrules.DefaultValue(&c.Status.Phase, corev1.ClaimPending)
			if old == nil {
				podspec.SetDataSources(&c.Spec, nil)
			} else {
				podspec.SetDataSources(&c.Spec, &old.Spec)
			}
		},
		Validate: func(c *corev1.PersistentVolumeClaim) field.ErrorList {
			return podspec.ValidateClaim(&c.Spec, &fieldrules.Spec)
		},
		ValidateUpdate: validateClaimUpdate,
		Status:         true,
		PrepareStatus: func(_ context.Context, c, old *corev1.PersistentVolumeClaim) {
			if old.Status.HealthStatus == nil { // the feature CSIVolumeHealth is off
				c.Status.HealthStatus = nil
			}
		},
		ValidateStatus: claimStatus,
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

// claimRow returns the cells of a claim in a table.
//
//upstream:pkg/printers/internalversion.printPersistentVolumeClaim
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

// claimStatus checks the resources in the status of a claim.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeClaimStatusUpdate
func claimStatus(c, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	at := fieldrules.Status.Child("capacity")
	for _, name := range fieldrules.SortedKeys(c.Status.Capacity) {
		item := at.Key(string(name))
		errs = append(errs, storedQuantity(c.Status.Capacity[name], &item)...)
	}
	at = fieldrules.Status.Child("allocatedResourceStatuses")
	for _, name := range fieldrules.SortedKeys(c.Status.AllocatedResourceStatuses) {
		errs = append(errs, claimResource(name, &at)...)
		if !slices.Contains(resizeStatuses, c.Status.AllocatedResourceStatuses[name]) {
			errs = append(errs, field.NotSupported(at.Field(), name, resizeStatuses))
		}
	}
	at = fieldrules.Status.Child("allocatedResources")
	for _, name := range fieldrules.SortedKeys(c.Status.AllocatedResources) {
		if bad := claimResource(name, &at); len(bad) > 0 {
			errs = append(errs, bad...)
			continue
		}
		item := at.Key(string(name))
		errs = append(errs, storedQuantity(c.Status.AllocatedResources[name], &item)...)
	}
	return errs
}

// resizeStatuses are the states of the expansion of a claim.
//
//upstream:pkg/apis/core/validation.resizeStatusSet
var resizeStatuses = []corev1.ClaimResourceStatus{corev1.PersistentVolumeClaimControllerResizeInProgress,
	corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizePending,
	corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible}

// claimResource checks the name of a resource of a claim. The only native resource is storage.
//
//upstream:pkg/apis/core/validation.validatePersistentVolumeClaimResourceKey
func claimResource(name corev1.ResourceName, at *fieldrules.Path) field.ErrorList {
	if errs := fieldrules.QualifiedName(string(name), at, ""); len(errs) > 0 {
		return errs
	}
	native := !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	if native && name != corev1.ResourceStorage {
		return field.ErrorList{field.NotSupported(at.Field(), name, []corev1.ResourceName{corev1.ResourceStorage})}
	}
	return nil
}

// validateClaimUpdate checks that an update sets the volume or the StorageClass of a claim at most once,
// and changes the storage request and the VolumeAttributesClass of a bound claim only.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeClaimUpdate
//upstream:pkg/apis/core/validation.validateStorageClassUpgradeFromNil
func validateClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	podspec.SetDataSources(was, was)
	if old.Spec.VolumeName == "" {
		now.VolumeName = ""
	}
	if old.Spec.StorageClassName == nil {
		now.StorageClassName = nil
	}
	if old.Status.Phase == corev1.ClaimBound {
		now.VolumeAttributesClassName = old.Spec.VolumeAttributesClassName
	}
	var errs field.ErrorList
	asked, had := now.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if old.Status.Phase == corev1.ClaimBound && now.Resources.Requests != nil {
		now.Resources.Requests[corev1.ResourceStorage] = had.DeepCopy()
		if asked.Cmp(had) < 0 {
			errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("resources").Child("requests",
				"storage"), "field can not be less than status.capacity"))
		}
	}
	if !equality.Semantic(now, was) {
		errs = append(errs, field.Forbidden(fieldrules.Spec.Field(),
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"+
				diff.Diff(fieldrules.Internal(*was), fieldrules.Internal(*now))))
	}
	return errs
}
