package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// maxData is the maximum size of the data of a ConfigMap or a Secret, in bytes.
const maxData = corev1.MaxSecretSize

// frozenData is the message of the error for a change of an immutable ConfigMap or Secret.
const frozenData = "field is immutable when `immutable` is set"

// ConfigMaps describes the kind ConfigMap.
//
//upstream:pkg/registry/core/configmap.strategy
//upstream:pkg/registry/core/configmap/storage.REST.ShortNames
//upstream:pkg/printers/internalversion.printConfigMap
func ConfigMaps() kinds.Kind {
	return kinds.Of[*corev1.ConfigMap]{
		Type: &corev1.ConfigMap{}, List: &corev1.ConfigMapList{},
		Plural: "configmaps", ShortNames: []string{"cm"},
		Name:           fieldrules.NameIsSubdomain,
		Validate:       validateConfigMap,
		ValidateUpdate: validateConfigMapUpdate,
		Columns: []metav1.TableColumnDefinition{columns.Column("Data", "string",
			corev1.ConfigMap{}.SwaggerDoc()["data"])},
		Row: func(c *corev1.ConfigMap) []any { return []any{int64(len(c.Data) + len(c.BinaryData))} },
	}
}

// validateConfigMap checks the keys and the size of the data.
//
//upstream:pkg/apis/core/validation.ValidateConfigMap
func validateConfigMap(c *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, key := range fieldrules.SortedKeys(c.Data) {
		errs = append(errs, dataKey(key, &fieldrules.Root, "data")...)
		if _, both := c.BinaryData[key]; both {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(c.Data[key])
	}
	for _, key := range fieldrules.SortedKeys(c.BinaryData) {
		errs = append(errs, dataKey(key, &fieldrules.Root, "binaryData")...)
		size += len(c.BinaryData[key])
	}
	if size > maxData {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxData))
	}
	return errs
}

// dataKey checks a key of the data of a ConfigMap or a Secret.
//
//upstream:pkg/apis/core/validation.ValidateConfigMap
//upstream:pkg/apis/core/validation.ValidateSecret
func dataKey(key string, fldPath *fieldrules.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, m := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(fldPath.ChildField(name).Key(key), key, m))
	}
	return errs
}

// validateConfigMapUpdate checks that an immutable ConfigMap does not change.
//
//upstream:pkg/apis/core/validation.ValidateConfigMapUpdate
func validateConfigMapUpdate(c, old *corev1.ConfigMap) field.ErrorList {
	if old.Immutable == nil || !*old.Immutable {
		return nil
	}
	errs := staysImmutable(c.Immutable)
	if !equality.Semantic(c.Data, old.Data) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), frozenData))
	}
	if !equality.Semantic(c.BinaryData, old.BinaryData) {
		errs = append(errs, field.Forbidden(field.NewPath("binaryData"), frozenData))
	}
	return errs
}

// staysImmutable checks that an update of an immutable object keeps the field immutable.
//
//upstream:pkg/apis/core/validation.ValidateConfigMapUpdate
//upstream:pkg/apis/core/validation.ValidateSecretUpdate
func staysImmutable(now *bool) field.ErrorList {
	if now != nil && *now {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("immutable"), frozenData)}
}
