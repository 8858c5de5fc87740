package envtest_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/envtest"
	"flyball.dev/record"
	"flyball.dev/record/recordtest"
)

// TestSnapshot starts environments with what another one was: from a snapshot, and from moments of a recording.
func TestSnapshot(t *testing.T) { synctest.Test(t, testSnapshot) }

func testSnapshot(t *testing.T) {
	before := &envtest.Environment{InMemory: true, CRDs: []*crdV1{widgets()}}
	c := start(t, before)
	kept, gone := widget("kept"), widget("gone")
	for _, o := range []client.Object{kept, gone} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	recording, stop := recordtest.Start(t, before.Config, record.Options{})
	deleted := time.Now()
	time.Sleep(time.Second)
	if err := c.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until the deletion is recorded
	stop()
	snapshot := filepath.Join(t.TempDir(), "with@sign")
	file, err := os.Create(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	_, err = controlplane.SaveSnapshot(t.Context(), before.Config, file)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		from string
		want map[string]types.UID
	}{
		"snapshot":      {snapshot, map[string]types.UID{"kept": kept.GetUID()}},
		"recording":     {recording, map[string]types.UID{"kept": kept.GetUID()}},
		"before a time": {recording + "@" + deleted.Format(time.RFC3339Nano), map[string]types.UID{"kept": kept.GetUID(), "gone": gone.GetUID()}},
	} {
		env := &envtest.Environment{Snapshot: test.from, InMemory: true}
		c := start(t, env)
		if got := widgetUIDs(t, c); !maps.Equal(got, test.want) {
			t.Errorf("%s: there are %v, want %v", name, got, test.want)
		}
		if err := errors.Join(c.Delete(t.Context(), widget("kept")), c.Create(t.Context(), widget("new")), env.Reset()); err != nil {
			t.Fatal(err)
		}
		if got := widgetUIDs(t, c); !maps.Equal(got, test.want) {
			t.Errorf("%s: after Reset there are %v, want %v", name, got, test.want)
		}
	}
}

// widgetUIDs returns the UIDs of the widgets by their names.
func widgetUIDs(t *testing.T, c client.Client) map[string]types.UID {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(widget("").GroupVersionKind())
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	found := map[string]types.UID{}
	for _, w := range list.Items {
		found[w.GetName()] = w.GetUID()
	}
	return found
}

// TestBadSnapshots starts environments with files that are no snapshots.
func TestBadSnapshots(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign")
	if err := os.WriteFile(foreign, []byte("apiVersion: v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	existing := true
	for _, test := range []struct {
		env  envtest.Environment
		want string
	}{
		{envtest.Environment{Snapshot: filepath.Join(dir, "none")}, "no such file"},
		{envtest.Environment{Snapshot: foreign}, "not a snapshot"},
		{envtest.Environment{Snapshot: foreign + "@14:02"}, "not a recording"},
		{envtest.Environment{Snapshot: foreign, UseExistingCluster: &existing, Config: &rest.Config{Host: "127.0.0.1:1"}}, "an existing cluster cannot start with a Snapshot"},
	} {
		if _, err := test.env.Start(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Snapshot %q: %v, want %q", test.env.Snapshot, err, test.want)
		}
	}
}
