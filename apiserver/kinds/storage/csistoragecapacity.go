package storage

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// CSIStorageCapacities describes the kind CSIStorageCapacity.
//
//upstream:pkg/registry/storage/csistoragecapacity.csiStorageCapacityStrategy
//upstream:pkg/apis/storage/validation.ValidateCSIStorageCapacity
//upstream:pkg/apis/storage/validation.ValidateCSIStorageCapacityUpdate
//upstream:pkg/registry/storage/csistoragecapacity/storage.NewStorage
func CSIStorageCapacities() kinds.Kind {
	return kinds.Of[*storagev1.CSIStorageCapacity]{
		Type: &storagev1.CSIStorageCapacity{}, List: &storagev1.CSIStorageCapacityList{},
		Plural: "csistoragecapacities", NoUnconditionalUpdate: true,
		Name: fieldrules.NameIsSubdomain,
		Validate: func(c *storagev1.CSIStorageCapacity) (errs field.ErrorList) {
			object := check.Object(&errs)
			check.LabelSelector(object.Child("nodeTopology"), c.NodeTopology)
			check.DNSName(object.Child("storageClassName"), c.StorageClassName)
			check.Optional(object.Child("capacity"), c.Capacity, check.Quantity)
			return errs
		},
		ValidateUpdate: func(c, old *storagev1.CSIStorageCapacity) (errs field.ErrorList) {
			object := check.Object(&errs)
			check.Immutable(object.Child("nodeTopology"), c.NodeTopology, old.NodeTopology)
			check.Immutable(object.Child("storageClassName"), c.StorageClassName, old.StorageClassName)
			return errs
		},
		Warnings: func(c, _ *storagev1.CSIStorageCapacity) []string { return nodeTopologyWarnings(c.NodeTopology) },
		Bare:     true,
		Columns:  columns.CreatedAt,
		Row:      func(c *storagev1.CSIStorageCapacity) []any { return columns.CreatedRow(c) },
	}
}

// nodeTopologyWarnings warns about deprecated labels of nodes.
//
//upstream:pkg/api/storage.GetWarningsForCSIStorageCapacity
//upstream:pkg/api/node.GetWarningsForNodeSelector
func nodeTopologyWarnings(s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	var warnings []string
	at := field.NewPath("nodeTopology")
	for i, e := range s.MatchExpressions {
		if message, ok := podspec.DeprecatedNodeLabel(e.Key); ok {
			warnings = append(warnings, fmt.Sprintf("%s: %s is %s", at.Child("matchExpressions").Index(i).Child("key"), e.Key, message))
		}
	}
	for _, key := range fieldrules.SortedKeys(s.MatchLabels) {
		if message, ok := podspec.DeprecatedNodeLabel(key); ok {
			warnings = append(warnings, fmt.Sprintf("%s: %s", at.Child("matchLabels").Child(key), message))
		}
	}
	return warnings
}
