// Package managedfields computes the managed fields of writes: which manager owns which fields of
// an object.
//
// Upstream's field manager (k8s.io/apimachinery/pkg/util/managedfields) does so for every write, by
// converting, comparing and merging whole objects. An [Updater] comes to the same result for the
// simple writes of which a server sees most, and leaves the others to the field manager. For now
// the simple writes are creations, where no field has an owner yet.
//
// What they save, on two cores that are shared with other work: a create of a Pod in process takes
// 0.4 ms instead of 0.9 ms (BenchmarkCreatePods in package controlplane, with 50 KB allocated
// instead of 76 KB), and one of a custom resource 0.55 ms instead of 0.7 ms (BenchmarkCreate in
// package crd), each with and without an updater. The part of the managed fields alone is
// BenchmarkCreate in this package:
//
//	              updater   field manager
//	Go type          6 µs           78 µs
//	unstructured    72 µs           87 µs
//
// An updater also lets package endpoints answer a create without upstream's handler, which is most
// of what unstructured objects gain.
package managedfields

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Write describes a write of an object.
type Write struct {
	// Manager is the name of the field manager. It is not empty.
	Manager   string
	Operation metav1.ManagedFieldsOperationType
	// Subresource is what the write goes through, empty for the resource itself.
	Subresource string
}

// Updater sets the managed fields of objects of one kind in one version. It is safe for concurrent
// use.
type Updater interface {
	// Update sets the managed fields of obj as the write that replaces old with obj leaves them; old
	// is nil for a creation. It does what upstream's field manager would do, or it returns false and
	// has changed nothing: then the field manager must do it.
	Update(old, obj metav1.Object, w Write) bool
}

// creates reports whether the write is a creation of the whole object by an update.
func (w Write) creates(old metav1.Object) bool {
	return old == nil && w.Operation == metav1.ManagedFieldsOperationUpdate && w.Subresource == "" && w.Manager != ""
}

// setOwner makes the manager of a write the only one, with fields in the encoding of FieldsV1.
func setOwner(obj metav1.Object, apiVersion string, w Write, fields []byte) {
	now := metav1.NewTime(time.Now().UTC())
	entry := metav1.ManagedFieldsEntry{
		Manager: w.Manager, Operation: w.Operation, Subresource: w.Subresource, APIVersion: apiVersion,
		Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields)),
	}
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{entry})
}

// serverMetadata are the fields of metadata that the server sets, which therefore have no manager.
var serverMetadata = []string{
	"clusterName", "creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion",
	"selfLink", "uid",
}
