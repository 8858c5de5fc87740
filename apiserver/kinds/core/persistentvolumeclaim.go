package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
		ValidateCreate: func(c *corev1.PersistentVolumeClaim) (errs field.ErrorList) {
			podspec.ValidateClaim(check.Object(&errs).Child("spec"), &c.Spec, nil)
			return errs
		},
		ValidateUpdate: validateClaimUpdate,
		Warnings:       claimWarnings,
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

// claimWarnings returns the warnings for a claim, new or updated.
//
//upstream:pkg/api/persistentvolumeclaim.GetWarningsForPersistentVolumeClaim
func claimWarnings(c, _ *corev1.PersistentVolumeClaim) []string {
	var warnings []string
	if _, ok := c.Annotations[classAnnotation]; ok {
		warnings = append(warnings, fieldrules.Metadata.ChildField("annotations").Key(classAnnotation).String()+
			`: deprecated since v1.8; use "storageClassName" attribute instead`)
	}
	return append(warnings, podspec.ClaimWarnings(&c.Spec, fieldrules.Spec.Field())...)
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
		storedQuantity(check.Field{Path: item}.Into(&errs), c.Status.Capacity[name])
	}
	at = fieldrules.Status.Child("allocatedResourceStatuses")
	for _, name := range fieldrules.SortedKeys(c.Status.AllocatedResourceStatuses) {
		errs = append(errs, claimResource(name, &at)...)
		if !slices.Contains(resizeStatuses, c.Status.AllocatedResourceStatuses[name]) {
			errs = append(errs, fieldrules.NotSupported(corev1.ClaimResourceStatus(name), &at, "", resizeStatuses)...)
		}
	}
	at = fieldrules.Status.Child("allocatedResources")
	for _, name := range fieldrules.SortedKeys(c.Status.AllocatedResources) {
		if bad := claimResource(name, &at); len(bad) > 0 {
			errs = append(errs, bad...)
			continue
		}
		item := at.Key(string(name))
		storedQuantity(check.Field{Path: item}.Into(&errs), c.Status.AllocatedResources[name])
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
	var errs field.ErrorList
	podspec.ValidateClaim(check.Object(&errs).Child("spec"), &c.Spec, &old.Spec)
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	podspec.SetDataSources(was, was)
	if old.Spec.VolumeName == "" {
		now.VolumeName = ""
	}
	if !upgradesAnnotation(c, old) {
		errs = append(errs, apivalidation.ValidateImmutableField(c.Annotations[classAnnotation], old.Annotations[classAnnotation],
			field.NewPath("metadata", "annotations", classAnnotation))...)
	}
	if class := now.StorageClassName; class != nil && was.StorageClassName == nil {
		if annotated, ok := old.Annotations[classAnnotation]; !ok || annotated == *class {
			now.StorageClassName = nil
		}
	}
	if bound := c.Status.Phase == corev1.ClaimBound; bound {
		now.VolumeAttributesClassName = old.Spec.VolumeAttributesClassName
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = old.Spec.Resources.Requests[corev1.ResourceStorage]
		}
	}
	if !equality.Semantic(now, was) {
		errs = append(errs, field.Forbidden(fieldrules.Spec.Field(),
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"+
				diff.Diff(fieldrules.Internal(*was), fieldrules.Internal(*now))))
	}
	errs = append(errs, shrinks(c, old)...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	return append(errs, keepsAttributesClass(c, old)...)
}

// classAnnotation named the StorageClass before there was a field.
const classAnnotation = corev1.BetaStorageClassAnnotation

// upgradesAnnotation reports whether an update moves the StorageClass from the annotation to the field.
//
//upstream:pkg/apis/core/validation.validateStorageClassUpgradeFromAnnotation
func upgradesAnnotation(c, old *corev1.PersistentVolumeClaim) bool {
	was, ok := old.Annotations[classAnnotation]
	now, kept := c.Annotations[classAnnotation]
	class := c.Spec.StorageClassName
	return ok && old.Spec.StorageClassName == nil && class != nil && *class == was && (!kept || now == was)
}

// shrinks checks that a request that becomes smaller stays greater than the capacity: the expansion of the volume has
// failed then.
func shrinks(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	now, was := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if now.Cmp(was) >= 0 || now.Cmp(old.Status.Capacity[corev1.ResourceStorage]) > 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(fieldrules.Spec.ChildField("resources").Child("requests", "storage"),
		"field can not be less than status.capacity")}
}

// keepsAttributesClass checks that a claim keeps a VolumeAttributesClass if its volume has one.
func keepsAttributesClass(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	now, was := c.Spec.VolumeAttributesClassName, old.Spec.VolumeAttributesClassName
	if old.Status.CurrentVolumeAttributesClassName == nil || now == nil && was == nil {
		return nil
	}
	at := fieldrules.Spec.ChildField("volumeAttributesClassName")
	switch {
	case now == nil:
		return field.ErrorList{field.Forbidden(at, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil")}
	case *now == "" && (was == nil || *was != ""):
		return field.ErrorList{field.Forbidden(at, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil")}
	}
	return nil
}
