package dev

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/kubeconfig"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
`

// TestInstallAsksTheAPIServer: a definition is installed again if somebody has deleted or changed it.
func TestInstallAsksTheAPIServer(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	in, err := newInstaller(plane.Config(), &reader{folders: []string{dir}})
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "widgets.yaml"), []byte(definition), 0o666)); err != nil {
		t.Fatal(err)
	}
	install := func(want ...string) {
		t.Helper()
		if got, err := in.install(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("installed is %q, %v; want %q", got, err, want)
		}
	}
	install("CustomResourceDefinition widgets.example.com created")
	install()

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}
	if err := in.client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
		t.Fatal(err)
	}
	crd.Spec.Names.ShortNames = []string{"w"}
	if err := in.client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	install("CustomResourceDefinition widgets.example.com updated")
	install()

	if err := in.client.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = in.client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd) // its finalizer goes first
	}
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	install("CustomResourceDefinition widgets.example.com created")
	install()
}

// TestWarnings: a warning of the API server stands among the lines of this program, once.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	var printed bytes.Buffer
	s := &session{
		Options: Options{Listen: "127.0.0.1:0", Kubeconfig: filepath.Join(dir, "kubeconfig")},
		out:     newOutput(&printed), dir: dir, manifests: &reader{folders: []string{filepath.Join(dir, "config")}},
	}
	properties := "        properties: {FIELD: {type: string, format: nonsense}}\n"
	for _, field := range []string{"a", "b"} {
		content := definition + strings.ReplaceAll(properties, "FIELD", field)
		path := filepath.Join(dir, "config", "widgets.yaml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(content), 0o666)); err != nil {
			t.Fatal(err)
		}
		if s.plane == nil {
			if err := s.startPlane(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.plane.Stop(); err != nil {
					t.Error(err)
				}
			}()
			printed.Reset()
		}
		if _, err := s.installer.install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := printed.String(), "flyball  | Warning: unrecognized format \"nonsense\"\n"; got != want {
		t.Errorf("printed is %q, want %q", got, want)
	}
}

// TestKubeconfigInUse: a second run in the same project would take the control plane away from the users
// of the first.
func TestKubeconfigInUse(t *testing.T) {
	t.Chdir(t.TempDir())
	file := filepath.Join(t.TempDir(), "kubeconfig")
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(kubeconfig.CheckUnused(file), kubeconfig.Write(file, plane.Kubeconfig()))
	if err == nil {
		err = Run(t.Context(), io.Discard, Options{Kubeconfig: file, Main: "."})
	}
	if want := "the control plane of the kubeconfig " + file + " runs already, at " + plane.URL(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
	if err := errors.Join(plane.Stop(), kubeconfig.CheckUnused(file)); err != nil {
		t.Errorf("the control plane has ended: %v", err)
	}
}

// TestInterruptedStart: Ctrl-C is how a run ends, even if nothing is there yet.
func TestInterruptedStart(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, io.Discard, Options{}); err != nil {
		t.Error(err)
	}
}
