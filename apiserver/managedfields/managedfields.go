// Package managedfields computes the managed fields of writes: which manager owns which fields of
// an object.
//
// Upstream's field manager (k8s.io/apimachinery/pkg/util/managedfields) does so for every write, by
// converting, comparing and merging whole objects. An [Updater] comes to the same result for the
// writes of which a server sees most, and leaves the others to the field manager.
//
// A create of a Go type is one walk over the object ([ForType]). An update compares only the parts
// in which the two objects differ, which is where a write can change who owns a field, and encodes
// again only the entries of the managers that it concerns; the sets of the others are not even
// read if they were read before. What both cost is BenchmarkCreate and BenchmarkUpdate in this
// package.
//
// An updater also lets package endpoints answer a write without upstream's handler.
package managedfields

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Write describes a write of an object.
type Write struct {
	// Manager is the name of the field manager. It is not empty.
	Manager   string
	Operation metav1.ManagedFieldsOperationType
	// Subresource is the subresource that is written, empty for the resource itself.
	Subresource string
}

// Updater sets the managed fields of objects of one kind in one version. It is safe for concurrent
// use.
type Updater interface {
	// Update sets the managed fields of obj as the write that replaces old with obj leaves them; old
	// is nil for a creation. It does what upstream's field manager would do, or it returns false and
	// has changed nothing: then the field manager must do it. It does not change old.
	Update(old, obj metav1.Object, w Write) bool

	// Apply returns a copy of a live object with the fields of a configuration, which is JSON with
	// integers, and with the managed fields that a server-side apply of it leaves. The object has
	// not been defaulted, and an unstructured one shares parts with both. With force, w's manager takes
	// the fields that others own with other values. It returns false for what the field manager must do:
	// among others for conflicts, and if the manager applied fields before that are not in this
	// configuration. It also returns false if ctx ends, which it then does soon.
	Apply(ctx context.Context, live metav1.Object, config map[string]any, w Write, force bool) (obj metav1.Object, ok bool)
}

// copyOf returns a deep copy of an object.
func copyOf(obj metav1.Object) metav1.Object {
	return obj.(runtime.Object).DeepCopyObject().(metav1.Object)
}

// creates reports whether the write is a creation by an update.
//
//upstream:k8s.io/apimachinery/pkg/util/managedfields/internal.skipNonAppliedManager
func (w Write) creates(old metav1.Object) bool {
	return old == nil && w.Operation == metav1.ManagedFieldsOperationUpdate && w.Manager != ""
}

// owner returns the entry of the manager of a write, with fields in the encoding of FieldsV1.
func (w Write) owner(apiVersion string, fields []byte) metav1.ManagedFieldsEntry {
	now := metav1.NewTime(time.Now().UTC().Truncate(time.Second)) // as it is stored
	return metav1.ManagedFieldsEntry{
		Manager: w.Manager, Operation: w.Operation, Subresource: w.Subresource, APIVersion: apiVersion,
		Time: &now, FieldsType: fieldsType, FieldsV1: metav1.NewFieldsV1(string(fields)),
	}
}

// fieldsType is the only type of fields that an entry can have.
const fieldsType = "FieldsV1"

// serverMetadata are the fields of metadata that the server sets, which therefore have no manager.
var serverMetadata = []string{
	"clusterName", "creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion",
	"selfLink", "uid",
}
