package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

// TestWarnings: commands print the warnings of the API server to standard error as kubectl does, each once.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0", KubeconfigFile: kubeconfig, WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {nodeSelector: {beta.kubernetes.io/os: linux}, containers: [{name: c, image: i}]}
---`
	definition := controlplanetest.WidgetDefinition("{a: {type: string, format: nonsense}}")
	for command, tt := range map[string]struct{ manifest, want string }{
		"apply": {strings.ReplaceAll(pod, "NAME", "a") + strings.ReplaceAll(pod, "NAME", "b"),
			`Warning: spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`},
		"install": {definition, `Warning: unrecognized format "nonsense"`},
	} {
		path := filepath.Join(dir, command+".yaml")
		if err := os.WriteFile(path, []byte(tt.manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd := root()
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&stderr)
		cmd.SetArgs([]string{command, "--kubeconfig", kubeconfig, "-f", path})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(command, err)
		}
		if want := "cluster: " + plane.URL() + "\n" + tt.want + "\n"; stderr.String() != want {
			t.Errorf("flyball %s printed\n%s\nwant\n%s", command, &stderr, want)
		}
	}
}
