// Package storage describes the kinds of the storage.k8s.io API group.
package storage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// StorageClasses describes the kind StorageClass.
func StorageClasses() kinds.Kind {
	return kinds.Of[*storagev1.StorageClass]{
		Type: &storagev1.StorageClass{}, List: &storagev1.StorageClassList{},
		Plural: "storageclasses", ShortNames: []string{"sc"}, Cluster: true,
		Name: fieldrules.NameIsSubdomain,
		Default: func(c *storagev1.StorageClass) {
			fieldrules.DefaultPointer(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
			fieldrules.DefaultPointer(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
		},
		Validate:       validateStorageClass,
		ValidateUpdate: validateStorageClassUpdate,
		Bare:           true,
		Columns: []metav1.TableColumnDefinition{
			columns.NameColumn,
			columns.Column("Provisioner", "string", storagev1.StorageClass{}.SwaggerDoc()["provisioner"]),
			columns.Column("ReclaimPolicy", "string", storagev1.StorageClass{}.SwaggerDoc()["reclaimPolicy"]),
			columns.Column("VolumeBindingMode", "string", storagev1.StorageClass{}.SwaggerDoc()["volumeBindingMode"]),
			columns.Column("AllowVolumeExpansion", "string", storagev1.StorageClass{}.SwaggerDoc()["allowVolumeExpansion"]),
			columns.AgeColumn,
		},
		Row: func(c *storagev1.StorageClass) []any {
			name := c.Name
			if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
				name += " (default)"
			}
			reclaim, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
			if c.ReclaimPolicy != nil {
				reclaim = *c.ReclaimPolicy
			}
			if c.VolumeBindingMode != nil {
				binding = *c.VolumeBindingMode
			}
			return []any{name, c.Provisioner, string(reclaim), string(binding),
				c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion, columns.Age(c.CreationTimestamp)}
		},
	}
}

// Limits of a storage class's parameters.
const (
	maxParameters     = 512
	maxParameterBytes = 256 << 10
)

// validateStorageClass checks the provisioner, the parameters, the policies and the topologies.
func validateStorageClass(c *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	if c.Provisioner == "" {
		errs = append(errs, field.Required(fieldrules.Root.ChildField("provisioner"), ""))
	} else {
		errs = append(errs, fieldrules.Invalid(validation.IsQualifiedName(strings.ToLower(c.Provisioner)),
			c.Provisioner, &fieldrules.Root, "provisioner")...)
	}
	if n := len(c.Parameters); n > maxParameters {
		errs = append(errs, field.TooLong(fieldrules.Root.ChildField("parameters"), "", maxParameters))
	}
	size := 0
	for _, k := range fieldrules.SortedKeys(c.Parameters) {
		if k == "" {
			errs = append(errs, field.Invalid(fieldrules.Root.ChildField("parameters"), k, "field can not be empty."))
		}
		size += len(k) + len(c.Parameters[k])
	}
	if size > maxParameterBytes {
		errs = append(errs, field.TooLong(fieldrules.Root.ChildField("parameters"), "", maxParameterBytes))
	}
	errs = append(errs, fieldrules.OptionalOneOf(c.ReclaimPolicy, &fieldrules.Root, "reclaimPolicy",
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	if c.VolumeBindingMode == nil {
		return append(errs, field.Required(fieldrules.Root.ChildField("volumeBindingMode"), ""))
	}
	return append(errs, fieldrules.OptionalOneOf(c.VolumeBindingMode, &fieldrules.Root, "volumeBindingMode",
		storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
}

func validateStorageClassUpdate(c, old *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(c.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(fieldrules.Root.ChildField("parameters"), "updates to parameters are forbidden."))
	}
	if c.Provisioner != old.Provisioner {
		errs = append(errs, field.Forbidden(fieldrules.Root.ChildField("provisioner"),
			"updates to provisioner are forbidden."))
	}
	if was := old.ReclaimPolicy; was != nil && (c.ReclaimPolicy == nil || *c.ReclaimPolicy != *was) {
		errs = append(errs, field.Forbidden(fieldrules.Root.ChildField("reclaimPolicy"),
			"updates to reclaimPolicy are forbidden."))
	}
	return append(errs, fieldrules.Immutable(c.VolumeBindingMode, old.VolumeBindingMode, &fieldrules.Root,
		"volumeBindingMode")...)
}
