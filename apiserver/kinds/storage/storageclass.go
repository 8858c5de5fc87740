// Package storage describes the kinds of the storage.k8s.io API group.
package storage

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
func validateStorageClass(c *storagev1.StorageClass) (errs field.ErrorList) {
	object := check.Object(&errs)
	driver(object.Child("provisioner"), c.Provisioner)
	parameters(object.Child("parameters"), c.Parameters)
	if p := c.ReclaimPolicy; p != nil && *p != "" {
		check.OneOf(object.Child("reclaimPolicy"), *p, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if c.VolumeBindingMode == nil {
		object.Child("volumeBindingMode").Required("")
		return errs
	}
	check.OptionalOneOf(object.Child("volumeBindingMode"), c.VolumeBindingMode,
		storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	topologies(object.Child("allowedTopologies"), c.AllowedTopologies)
	return errs
}

// topologies checks that each term selects something, and that no two terms are the same.
//
//upstream:pkg/apis/storage/validation.validateAllowedTopologies
func topologies(list check.Field, terms []corev1.TopologySelectorTerm) {
	// kube-apiserver compares each term also with one empty term for each term there is.
	seen := map[string]int{"": len(terms)}
	for i, term := range terms {
		expressions := list.Index(i).Child("matchLabelExpressions")
		values := map[string]sets.Set[string]{}
		for j, e := range term.MatchLabelExpressions {
			key := expressions.Index(j).Child("key")
			topologyValues(expressions.Index(j).Child("values"), e.Values)
			check.LabelName(key, e.Key)
			if _, repeated := values[e.Key]; repeated {
				key.Duplicate(e.Key)
			}
			values[e.Key] = sets.New(e.Values...)
		}
		text := topologyText(values)
		for range min(seen[text], maxRepeated) {
			expressions.Duplicate("")
		}
		seen[text]++
	}
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
func topologyValues(list check.Field, values []string) {
	if len(values) == 0 {
		list.Required("")
	}
	var seen fieldrules.Seen[string]
	for i, v := range values {
		if !seen.Add(v) {
			list.Index(i).Duplicate(v)
		}
	}
}

// driver checks the field provisioner or driverName.
//
//upstream:pkg/apis/storage/validation.validateProvisioner
func driver(at check.Field, name string) {
	check.Required(at, name)
	check.IfSet(at, strings.ToLower(name), check.QualifiedName)
}

// parameters checks the parameters of a class.
//
//upstream:pkg/apis/storage/validation.validateParameters
func parameters(at check.Field, m map[string]string) {
	if len(m) > maxParameters {
		at.TooLong(maxParameters)
		return
	}
	size := 0
	for k, v := range m {
		if k == "" {
			at.Invalid(k, "field can not be empty.")
		}
		size += len(k) + len(v)
	}
	if size > maxParameterBytes {
		at.TooLong(maxParameterBytes)
	}
}

//upstream:pkg/apis/storage/validation.ValidateStorageClassUpdate
func validateStorageClassUpdate(c, old *storagev1.StorageClass) (errs field.ErrorList) {
	object := check.Object(&errs)
	check.ImmutableWithoutValue(object.Child("parameters"), c.Parameters, old.Parameters)
	check.ImmutableWithoutValue(object.Child("provisioner"), c.Provisioner, old.Provisioner)
	check.ImmutableWithoutValue(object.Child("reclaimPolicy"), c.ReclaimPolicy, old.ReclaimPolicy)
	check.ImmutableWithoutValue(object.Child("volumeBindingMode"), c.VolumeBindingMode, old.VolumeBindingMode)
	return errs
}
