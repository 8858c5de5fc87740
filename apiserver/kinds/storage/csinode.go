package storage

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
func validateCSINode(n *storagev1.CSINode) (errs field.ErrorList) {
	list := check.Object(&errs).Child("spec").Child("drivers")
	var drivers fieldrules.Seen[string]
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], list.Index(i)
		nodeDriver(at, d)
		if !drivers.Add(d.Name) {
			at.Child("name").Duplicate(d.Name)
		}
		var keys fieldrules.Seen[string]
		for _, key := range d.TopologyKeys {
			check.Required(at, key)
			if !keys.Add(key) {
				at.Duplicate(key)
			}
			check.QualifiedName(at, key)
		}
	}
	return errs
}

//upstream:pkg/apis/storage/validation.validateCSINodeDriver
//upstream:pkg/apis/storage/validation.validateCSINodeDriverNodeID
//upstream:pkg/apis/storage/validation.validateCSINodeDriverAllocatable
func nodeDriver(at check.Field, d *storagev1.CSINodeDriver) {
	check.DriverName(at.Child("name"), d.Name)
	check.Required(at.Child("nodeID"), d.NodeID)
	if len(d.NodeID) > maxCSINodeID {
		at.Child("nodeID").Invalidf(d.NodeID, "must be %d characters or less", maxCSINodeID)
	}
	if d.Allocatable != nil {
		check.NonNegative(at.Child("allocatable").Child("count"), d.Allocatable.Count)
	}
}

// validateCSINodeUpdate checks that existing drivers change only their field allocatable.
//
//upstream:pkg/apis/storage/validation.ValidateCSINodeUpdate
func validateCSINodeUpdate(n, old *storagev1.CSINode) (errs field.ErrorList) {
	drivers := check.Object(&errs).Child("spec").Child("drivers")
	for _, was := range old.Spec.Drivers {
		for _, is := range n.Spec.Drivers {
			if was.Name == is.Name {
				was.Allocatable, is.Allocatable = nil, nil
				check.ImmutableStruct(drivers, is, was)
			}
		}
	}
	return errs
}
