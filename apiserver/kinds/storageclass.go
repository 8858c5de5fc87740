package kinds

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func storageClasses() Kind {
	return Of[*storagev1.StorageClass]{
		Type: &storagev1.StorageClass{}, List: &storagev1.StorageClassList{},
		Plural: "storageclasses", ShortNames: []string{"sc"}, Cluster: true,
		Name: subdomain,
		Default: func(c *storagev1.StorageClass) {
			orElse(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
			orElse(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
		},
		Validate:       validateStorageClass,
		ValidateUpdate: validateStorageClassUpdate,
		Bare:           true,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			column("Provisioner", "string", storagev1.StorageClass{}.SwaggerDoc()["provisioner"]),
			column("ReclaimPolicy", "string", storagev1.StorageClass{}.SwaggerDoc()["reclaimPolicy"]),
			column("VolumeBindingMode", "string", storagev1.StorageClass{}.SwaggerDoc()["volumeBindingMode"]),
			column("AllowVolumeExpansion", "string", storagev1.StorageClass{}.SwaggerDoc()["allowVolumeExpansion"]),
			ageColumn,
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
			return []any{name, c.Provisioner, string(reclaim), string(binding), c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion, age(c.CreationTimestamp)}
		},
	}
}

// Limits of a storage class's parameters.
const (
	maxParameters     = 512
	maxParameterBytes = 256 << 10
)

func validateStorageClass(c *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	if c.Provisioner == "" {
		errs = append(errs, field.Required(root.of("provisioner"), ""))
	} else {
		errs = append(errs, invalid(validation.IsQualifiedName(strings.ToLower(c.Provisioner)), c.Provisioner, &root, "provisioner")...)
	}
	if n := len(c.Parameters); n > maxParameters {
		errs = append(errs, field.TooLong(root.of("parameters"), "", maxParameters))
	}
	size := 0
	for _, k := range sorted(c.Parameters) {
		if k == "" {
			errs = append(errs, field.Invalid(root.of("parameters"), k, "field can not be empty."))
		}
		size += len(k) + len(c.Parameters[k])
	}
	if size > maxParameterBytes {
		errs = append(errs, field.TooLong(root.of("parameters"), "", maxParameterBytes))
	}
	errs = append(errs, oneOfIf(c.ReclaimPolicy, &root, "reclaimPolicy", corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	if c.VolumeBindingMode == nil {
		return append(errs, field.Required(root.of("volumeBindingMode"), ""))
	}
	return append(errs, oneOfIf(c.VolumeBindingMode, &root, "volumeBindingMode", storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
}

func validateStorageClassUpdate(c, old *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(c.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(root.of("parameters"), "updates to parameters are forbidden."))
	}
	if c.Provisioner != old.Provisioner {
		errs = append(errs, field.Forbidden(root.of("provisioner"), "updates to provisioner are forbidden."))
	}
	if was := old.ReclaimPolicy; was != nil && (c.ReclaimPolicy == nil || *c.ReclaimPolicy != *was) {
		errs = append(errs, field.Forbidden(root.of("reclaimPolicy"), "updates to reclaimPolicy are forbidden."))
	}
	return append(errs, unchanged(c.VolumeBindingMode, old.VolumeBindingMode, &root, "volumeBindingMode")...)
}
