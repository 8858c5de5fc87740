package storage

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// CSINodes describes the kind CSINode.
//
//upstream:pkg/registry/storage/csinode.csiNodeStrategy
//upstream:pkg/registry/storage/csinode.csiNodeStatusStrategy
//upstream:pkg/printers/internalversion.printCSINode
func CSINodes() kinds.Kind {
	return kinds.Of[*storagev1.CSINode]{
		Type: &storagev1.CSINode{}, List: &storagev1.CSINodeList{},
		Plural: "csinodes", ReturnsDeleted: true, Cluster: true, NoUnconditionalUpdate: true,
		Name:           fieldrules.NameIsSubdomain,
		Validate:       validateCSINode,
		ValidateUpdate: validateCSINodeUpdate,
		Status:         true,
		PrepareStatus: func(ctx context.Context, n, old *storagev1.CSINode) {
			kinds.KeepMetadata(ctx, n, old)
			n.Status.StorageHealth = old.Status.StorageHealth // the feature CSIVolumeHealth is off
		},
		StatusReset: []string{"metadata"},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Drivers", "integer", "How many CSI drivers are registered on the node."),
		},
		Row: func(n *storagev1.CSINode) []any { return []any{int64(len(n.Spec.Drivers))} },
	}
}

// maxCSINodeID is the limit of a driver's identifier of the node, in bytes.
const maxCSINodeID = 256

// validateCSINode checks the drivers of a node.
//
//upstream:pkg/apis/storage/validation.validateCSINodeSpec
//upstream:pkg/apis/storage/validation.validateCSINodeDriver
//upstream:pkg/apis/storage/validation.validateCSINodeDriverNodeID
//upstream:pkg/apis/storage/validation.validateCSINodeDriverAllocatable
func validateCSINode(n *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child("drivers")
	var drivers fieldrules.Seen[string]
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], list.Index(i)
		errs = append(errs, fieldrules.DriverName(d.Name, &at, "name")...)
		errs = append(errs, fieldrules.Required(d.NodeID, &at, "nodeID")...)
		if len(d.NodeID) > maxCSINodeID {
			errs = append(errs, field.Invalid(at.ChildField("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", maxCSINodeID)))
		}
		if a := d.Allocatable; a != nil {
			in := at.Child("allocatable")
			errs = append(errs, fieldrules.OptionalNonNegative(a.Count, &in, "count")...)
		}
		if !drivers.Add(d.Name) {
			errs = append(errs, field.Duplicate(at.ChildField("name"), d.Name))
		}
		var keys fieldrules.Seen[string]
		for _, key := range d.TopologyKeys {
			if key == "" {
				errs = append(errs, field.Required(at.Field(), ""))
			}
			if !keys.Add(key) {
				errs = append(errs, field.Duplicate(at.Field(), key))
			}
			errs = append(errs, fieldrules.Invalid(validation.IsQualifiedName(key), key, &at, "")...)
		}
	}
	return errs
}

// validateCSINodeUpdate checks that existing drivers change only their field allocatable.
//
//upstream:pkg/apis/storage/validation.ValidateCSINodeUpdate
func validateCSINodeUpdate(n, old *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	for i := range old.Spec.Drivers {
		for j := range n.Spec.Drivers {
			was, is := old.Spec.Drivers[i], n.Spec.Drivers[j]
			if was.Name == is.Name {
				was.Allocatable, is.Allocatable = nil, nil
				errs = append(errs, fieldrules.ImmutableStruct(is, was, &fieldrules.Spec, "drivers")...)
			}
		}
	}
	return errs
}
