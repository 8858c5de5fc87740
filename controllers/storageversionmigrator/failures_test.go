package storageversionmigrator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// controllerName is the name of the controller.
const controllerName = "storage-version-migrator-controller"

// conditions returns the messages of the conditions of a migration that are true.
func conditions(e controllerstest.Env, name string) map[storagemigrationv1.MigrationConditionType]string {
	e.Helper()
	m := &storagemigrationv1.StorageVersionMigration{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Name: name}, m))
	all := map[storagemigrationv1.MigrationConditionType]string{}
	for _, c := range m.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			all[storagemigrationv1.MigrationConditionType(c.Type)] = c.Message
		}
	}
	return all
}

// TestPatchErrors migrates three ConfigMaps while the patches of one of them fail.
func TestPatchErrors(t *testing.T) {
	resource := corev1.Resource("configmaps")
	for name, test := range map[string]struct {
		err     error
		running string // the condition Running while the error lasts; "" if the migration ends
		failed  string // the condition Failed
	}{
		"conflict":  {err: apierrors.NewConflict(resource, "b", errors.New("changed"))},
		"not found": {err: apierrors.NewNotFound(resource, "b")},
		"too many requests": {err: apierrors.NewTooManyRequests("busy", 1),
			running: "The migration is running, 3/4 objects not yet migrated; transient error: busy"},
		"internal error": {err: apierrors.NewInternalError(errors.New("oops")),
			running: "The migration is running, 3/4 objects not yet migrated; transient error: Internal error occurred: oops"},
		"invalid": {err: apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "b", nil),
			failed: `3/4 not yet migrated. migration encountered unhandled error: ConfigMap "b" is invalid`},
		"forbidden": {err: apierrors.NewForbidden(resource, "b", errors.New("no")),
			failed: `3/4 not yet migrated. migration encountered unhandled error: configmaps "b" is forbidden: no`},
	} {
		t.Run(name, func(t *testing.T) {
			last := true // the error lasts
			controllerstest.WithController(t, controllerName, func(controllerstest.Env) interceptor.Funcs {
				return interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if o.GetName() == "b" && last {
						return test.err
					}
					return c.Patch(ctx, o, p, opts...)
				}}
			}, func(e controllerstest.Env) {
				for _, name := range []string{"a", "b", "c"} {
					e.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
				}
				e.CreateAll(migration("m", "", "configmaps"))
				e.WaitIdle()
				if test.running != "" {
					if got := conditions(e, "m"); len(got) != 1 || got[storagemigrationv1.MigrationRunning] != test.running {
						t.Errorf("while the error lasts: %q", got)
					}
					last = false
					time.Sleep(time.Minute) // virtual
					e.WaitIdle()
				}
				if test.failed != "" {
					wantCondition(e, "m", storagemigrationv1.MigrationFailed, test.failed)
					return
				}
				wantCondition(e, "m", storagemigrationv1.MigrationSucceeded, "Migration completed")
			})
		})
	}
}

// TestCorruptObject migrates a resource with an object that cannot be read. The condition Running shows it, and after a
// minute the migration fails, and the next one of the resource runs.
func TestCorruptObject(t *testing.T) {
	backend := memory.New(memory.Options{})
	controllerstest.WithControlPlane(t, controlplane.Options{Storage: backend}, func(e controllerstest.Env) {
		const key = "/registry/configmaps/default/corrupt"
		if _, err := backend.Put(e.Context(), storage.Write{Key: key, Value: []byte("no object"), If: storage.Any}); err != nil {
			t.Fatal(err)
		}
		e.CreateAll(migration("m", "", "configmaps"), migration("second", "", "configmaps"))
		e.WaitIdle()
		const problem = "failed to read one or more configmaps from the storage: "
		got := conditions(e, "m")[storagemigrationv1.MigrationRunning]
		if !strings.HasPrefix(got, "The migration is running; transient error: "+problem) || !strings.Contains(got, key) {
			t.Errorf("the condition Running is %q", got)
		}
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		if got := conditions(e, "m"); len(got) != 1 || !strings.HasPrefix(got[storagemigrationv1.MigrationFailed], "migration encountered unhandled error: "+problem) {
			t.Errorf("after a minute: %q", got)
		}
		if _, err := backend.Delete(e.Context(), key, storage.Any); err != nil {
			t.Fatal(err)
		}
		e.WaitIdle()
		wantCondition(e, "second", storagemigrationv1.MigrationSucceeded, "Migration completed")
	})
}

// TestDiscoveryError migrates a resource of an extension API server that does not answer.
func TestDiscoveryError(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{}, func(e controllerstest.Env) {
		e.CreateAll(decode(e, `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.absent.example.com}
spec: {group: absent.example.com, version: v1, service: {namespace: default, name: absent}, groupPriorityMinimum: 10, versionPriority: 10, insecureSkipTLSVerify: true}
`), migration("m", "absent.example.com", "things"))
		e.WaitIdle()
		if got := conditions(e, "m")[storagemigrationv1.MigrationRunning]; !strings.Contains(got, "transient error: ") || !strings.Contains(got, "absent.example.com/v1") {
			t.Errorf("the condition Running is %q", got)
		}
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		if got := conditions(e, "m"); len(got) != 1 || !strings.Contains(got[storagemigrationv1.MigrationFailed], "absent.example.com/v1") {
			t.Errorf("after a minute: %q", got)
		}
	})
}

// TestVanishingDefinition deletes a definition while its objects are migrated. The migration succeeds if discovery still has
// the resource when the objects are gone, and fails otherwise.
func TestVanishingDefinition(t *testing.T) {
	withGadgets(t, false, func(e controllerstest.Env) error {
		return e.Delete(e.Context(), decode(e, definition))
	}, func(e controllerstest.Env, crd *unstructured.Unstructured) {
		time.Sleep(time.Minute + 5*time.Second) // virtual; discovery is asked every five seconds
		e.WaitIdle()
		got := conditions(e, "m")
		failed := got[storagemigrationv1.MigrationFailed] == "migration encountered unhandled error: unable to obtain GVR from discovery"
		succeeded := got[storagemigrationv1.MigrationSucceeded] == "Migration completed"
		if len(got) != 1 || !failed && !succeeded {
			t.Errorf("the conditions are %q", got)
		}
	})
}

// TestChangedDefinition changes the storage version while objects are migrated to another one. Some are stored in each, so
// the stored versions must keep both.
func TestChangedDefinition(t *testing.T) {
	withGadgets(t, false, func(e controllerstest.Env) error {
		return e.Patch(e.Context(), decode(e, definition), storeV2)
	}, func(e controllerstest.Env, crd *unstructured.Unstructured) {
		wantCondition(e, "m", storagemigrationv1.MigrationSucceeded, "Migration completed")
		wantStoredVersions(e, crd, "v1", "v2")
	})
}

// storeV2 changes the storage version of the definition.
var storeV2 = client.RawPatch(types.JSONPatchType, []byte(`[
	{"op": "replace", "path": "/spec/versions/0/storage", "value": false},
	{"op": "replace", "path": "/spec/versions/1/storage", "value": true}]`))

// wantStoredVersions reads a definition and checks its stored versions.
func wantStoredVersions(e controllerstest.Env, crd *unstructured.Unstructured, want ...string) {
	e.Helper()
	e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(crd), crd))
	if versions, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions"); !slices.Equal(versions, want) {
		e.Errorf("the stored versions are %q, want %q", versions, want)
	}
}

// TestFailedMigration keeps the stored versions of a definition, because objects are left that are stored in an old one.
func TestFailedMigration(t *testing.T) {
	withGadgets(t, true, func(e controllerstest.Env) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "gadgets"}, "a", errors.New("no"))
	}, func(e controllerstest.Env, crd *unstructured.Unstructured) {
		wantStoredVersions(e, crd, "v1", "v2")
		if got := conditions(e, "m"); len(got) != 1 || got[storagemigrationv1.MigrationFailed] == "" {
			t.Errorf("the migration: %q", got)
		}
		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		i := slices.IndexFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "StorageMigrating" })
		if i < 0 || conditions[i].(map[string]any)["reason"] != "MigrationFailed" {
			t.Errorf("the conditions of the definition are %v", conditions)
		}
	})
}

// withGadgets migrates custom resources with one controller, and with objects in two versions if the storage version was
// switched before. The first patch calls during instead, and
// returns its error.
func withGadgets(t *testing.T, switched bool, during func(e controllerstest.Env) error, test func(e controllerstest.Env, crd *unstructured.Unstructured)) {
	first := true
	controllerstest.WithController(t, controllerName, func(e controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if first {
				first = false
				if err := during(e); err != nil {
					return err
				}
				return apierrors.NewTooManyRequests("busy", 1)
			}
			return c.Patch(ctx, o, p, opts...)
		}}
	}, func(e controllerstest.Env) {
		crd := decode(e, definition)
		e.CreateAll(crd, decode(e, "{apiVersion: example.com/v1, kind: Gadget, metadata: {namespace: default, name: a}}"))
		if switched {
			e.Must(e.Patch(e.Context(), crd, storeV2))
		}
		e.CreateAll(migration("m", "example.com", "gadgets"))
		e.WaitIdle()
		test(e, crd)
	})
}
