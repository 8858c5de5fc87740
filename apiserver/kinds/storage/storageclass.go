// Package storage describes the kinds of the storage.k8s.io API group.
package storage

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// StorageClasses describes the kind StorageClass.
//
//upstream:pkg/registry/storage/storageclass.storageClassStrategy
//upstream:pkg/apis/storage/v1.SetDefaults_StorageClass
//upstream:pkg/printers/internalversion.printStorageClass
//upstream:pkg/registry/storage/storageclass/storage.REST.ShortNames
func StorageClasses() kinds.Kind {
	return kinds.Of[*storagev1.StorageClass]{
		Type: &storagev1.StorageClass{}, List: &storagev1.StorageClassList{},
		Plural: "storageclasses", ShortNames: []string{"sc"}, Cluster: true,
		ReturnsDeleted: true,
		Name:           fieldrules.NameIsSubdomain,
		Default: func(c *storagev1.StorageClass) {
			fieldrules.DefaultPointer(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
			fieldrules.DefaultPointer(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
		},
		Validate:       validateStorageClass,
		ValidateUpdate: validateStorageClassUpdate,
		Warnings:       func(c, _ *storagev1.StorageClass) []string { return storageClassWarnings(c) },
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

// storageClassWarnings warns about deprecated labels of nodes.
//
//upstream:pkg/api/storage.GetWarningsForStorageClass
func storageClassWarnings(c *storagev1.StorageClass) []string {
	var warnings []string
	for i := range c.AllowedTopologies {
		at := field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions")
		for j, e := range c.AllowedTopologies[i].MatchLabelExpressions {
			if message, ok := podspec.DeprecatedNodeLabel(e.Key); ok {
				warnings = append(warnings, at.Index(j).Child("key").String()+": "+message)
			}
		}
	}
	return warnings
}

// Limits of a class's parameters.
const (
	maxParameters     = 512
	maxParameterBytes = 256 << 10
)

// validateStorageClass checks the provisioner, the parameters, the policies and the topologies.
//
//upstream:pkg/apis/storage/validation.ValidateStorageClass
func validateStorageClass(c *storagev1.StorageClass) field.ErrorList {
	errs := append(driver(c.Provisioner, "provisioner"), parameters(c.Parameters)...)
	if p := c.ReclaimPolicy; p != nil && *p != "" {
		errs = append(errs, fieldrules.OneOf(*p, &fieldrules.Root, "reclaimPolicy", corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	if c.VolumeBindingMode == nil {
		return append(errs, field.Required(fieldrules.Root.ChildField("volumeBindingMode"), ""))
	}
	errs = append(errs, fieldrules.OptionalOneOf(c.VolumeBindingMode, &fieldrules.Root, "volumeBindingMode",
		storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	return append(errs, topologies(c.AllowedTopologies)...)
}

// topologies checks that each term selects something, and that no two terms are the same.
//
//upstream:pkg/apis/storage/validation.validateAllowedTopologies
func topologies(terms []corev1.TopologySelectorTerm) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Root.Child("allowedTopologies")
	// kube-apiserver compares each term also with one empty term for each term there is.
	seen := map[string]int{"": len(terms)}
	for i, term := range terms {
		at := list.Index(i)
		expressions := at.Child("matchLabelExpressions")
		values := map[string]sets.Set[string]{}
		for j, e := range term.MatchLabelExpressions {
			item := expressions.Index(j)
			errs = append(errs, topologyValues(e.Values, &item)...)
			errs = append(errs, fieldrules.LabelName(e.Key, &item, "key")...)
			if _, repeated := values[e.Key]; repeated {
				errs = append(errs, field.Duplicate(item.ChildField("key"), e.Key))
			}
			values[e.Key] = sets.New(e.Values...)
		}
		text := topologyText(values)
		for range min(seen[text], maxRepeated) {
			errs = append(errs, field.Duplicate(expressions.Field(), ""))
		}
		seen[text]++
	}
	return errs
}

// maxRepeated bounds the errors for one repeated term.
const maxRepeated = 10

// topologyText returns the same text for equal terms, and different texts for others.
func topologyText(values map[string]sets.Set[string]) string {
	var text []byte
	for _, key := range fieldrules.SortedKeys(values) {
		text = strconv.AppendQuote(text, key)
		for _, v := range sets.List(values[key]) {
			text = strconv.AppendQuote(append(text, ','), v)
		}
		text = append(text, ';')
	}
	return string(text)
}

// topologyValues checks that values exist and are distinct.
func topologyValues(values []string, fldPath *fieldrules.Path) field.ErrorList {
	list := fldPath.Child("values")
	if len(values) == 0 {
		return field.ErrorList{field.Required(list.Field(), "")}
	}
	var errs field.ErrorList
	var seen fieldrules.Seen[string]
	for i, v := range values {
		if at := list.Index(i); !seen.Add(v) {
			errs = append(errs, field.Duplicate(at.Field(), v))
		}
	}
	return errs
}

// driver checks the field provisioner or driverName.
//
//upstream:pkg/apis/storage/validation.validateProvisioner
func driver(name, in string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(fieldrules.Root.ChildField(in), "")}
	}
	lower := strings.ToLower(name)
	return fieldrules.Invalid(validation.IsQualifiedName(lower), lower, &fieldrules.Root, in)
}

// parameters checks the parameters of a class.
//
//upstream:pkg/apis/storage/validation.validateParameters
func parameters(m map[string]string) field.ErrorList {
	at := fieldrules.Root.Child("parameters")
	if len(m) > maxParameters {
		return field.ErrorList{field.TooLong(at.Field(), "", maxParameters)}
	}
	var errs field.ErrorList
	size := 0
	for k, v := range m {
		if k == "" {
			errs = append(errs, field.Invalid(at.Field(), k, "field can not be empty."))
		}
		size += len(k) + len(v)
	}
	if size > maxParameterBytes {
		errs = append(errs, field.TooLong(at.Field(), "", maxParameterBytes))
	}
	return errs
}

//upstream:pkg/apis/storage/validation.ValidateStorageClassUpdate
func validateStorageClassUpdate(c, old *storagev1.StorageClass) field.ErrorList {
	errs := fieldrules.ImmutableUnquoted(c.Parameters, old.Parameters, &fieldrules.Root, "parameters")
	errs = append(errs, fieldrules.ImmutableUnquoted(c.Provisioner, old.Provisioner, &fieldrules.Root, "provisioner")...)
	errs = append(errs, fieldrules.ImmutableUnquoted(c.ReclaimPolicy, old.ReclaimPolicy, &fieldrules.Root, "reclaimPolicy")...)
	return append(errs, fieldrules.ImmutableUnquoted(c.VolumeBindingMode, old.VolumeBindingMode, &fieldrules.Root, "volumeBindingMode")...)
}
