package storageversionmigrator_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// decode returns the object of a manifest.
func decode(e controllerstest.Env, manifest string) *unstructured.Unstructured {
	e.Helper()
	u := &unstructured.Unstructured{}
	e.Must(yaml.Unmarshal([]byte(manifest), &u.Object))
	return u
}

func migration(name, group, resource string) *storagemigrationv1.StorageVersionMigration {
	m := &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Spec.Resource = metav1.GroupResource{Group: group, Resource: resource}
	return m
}

// wantCondition checks the condition that ends a migration, and that the migration no longer runs.
func wantCondition(e controllerstest.Env, name string, condition storagemigrationv1.MigrationConditionType, message string) {
	e.Helper()
	m := &storagemigrationv1.StorageVersionMigration{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Name: name}, m))
	c := meta.FindStatusCondition(m.Status.Conditions, string(condition))
	if c == nil || c.Status != metav1.ConditionTrue || c.Message != message {
		e.Errorf("%s: the condition %s is %+v, want %q", name, condition, c, message)
	}
	if meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationRunning)) {
		e.Errorf("%s runs", name)
	}
}

// TestStorageVersion stores custom resources in another version.
func TestStorageVersion(t *testing.T) {
	backend := memory.New(memory.Options{})
	controllerstest.WithControlPlane(t, controlplane.Options{Storage: backend}, func(e controllerstest.Env) {
		crd := decode(e, definition)
		e.CreateAll(crd)
		for i := range 700 { // more than a page
			e.CreateAll(decode(e, fmt.Sprintf("{apiVersion: example.com/v1, kind: Gadget, metadata: {namespace: default, name: g-%d}}", i)))
		}
		e.Must(e.Patch(e.Context(), crd, client.RawPatch(types.JSONPatchType, []byte(`[
			{"op": "replace", "path": "/spec/versions/0/storage", "value": false},
			{"op": "replace", "path": "/spec/versions/1/storage", "value": true}]`))))
		wantStored(e, backend, "example.com/v1", 700)
		e.CreateAll(migration("m", "example.com", "gadgets"), migration("second", "example.com", "gadgets"))
		e.WaitIdle()
		wantCondition(e, "m", storagemigrationv1.MigrationSucceeded, "Migration completed")
		wantCondition(e, "second", storagemigrationv1.MigrationSucceeded, "Migration completed")
		wantStored(e, backend, "example.com/v2", 700)
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(crd), crd))
		if versions, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions"); len(versions) != 1 || versions[0] != "v2" {
			t.Errorf("the stored versions are %q", versions)
		}
	})
}

// wantStored checks the version of all stored custom resources.
func wantStored(e controllerstest.Env, backend storage.Store, apiVersion string, n int) {
	e.Helper()
	page, err := backend.Range(e.Context(), storage.Query{Path: "/registry/example.com/gadgets/"})
	e.Must(err)
	found := 0
	for _, r := range page.Records {
		if bytes.Contains(r.Value(), []byte(`"apiVersion":"`+apiVersion+`"`)) {
			found++
		}
	}
	if found != n || len(page.Records) != n {
		e.Errorf("%d of %d objects are stored in %s, want %d", found, len(page.Records), apiVersion, n)
	}
}

// TestFailures migrates a resource that does not exist, and one that cannot be patched.
func TestFailures(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{}, func(e controllerstest.Env) {
		e.CreateAll(migration("absent", "example.com", "nothing"), migration("reviews", "authorization.k8s.io", "subjectaccessreviews"),
			migration("fine", "", "configmaps"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}})
		e.WaitIdle()
		wantCondition(e, "reviews", storagemigrationv1.MigrationFailed,
			`resource "authorization.k8s.io/v1, Resource=subjectaccessreviews" does not support discovery operations: [update patch list]`)
		wantCondition(e, "fine", storagemigrationv1.MigrationSucceeded, "Migration completed")
		time.Sleep(2 * time.Minute) // virtual
		e.WaitIdle()
		wantCondition(e, "absent", storagemigrationv1.MigrationFailed, "resource does not exist in discovery")
	})
}
