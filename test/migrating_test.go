package test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var checkout = flag.String("checkout", "", "a checkout of an operator on controller-runtime for TestMigrating, which changes a copy of it")

// unaligned is source of an operator that needs a library of Kubernetes that flyball.dev does not, and
// uses the type that event recorders had before controller-runtime v0.25.
const unaligned = `package controller

import (
	"k8s.io/client-go/tools/events"
	"k8s.io/component-helpers/resource"
	ctrl "sigs.k8s.io/controller-runtime"
)

var _ = resource.PodRequests

type recording struct{ recorder events.EventRecorder }

func newRecording(mgr ctrl.Manager) recording { return recording{mgr.GetEventRecorder("shop")} }

var _ = newRecording
`

// TestMigrating follows the recipes of docs/migrating.md on a project of Kubebuilder's, or on a copy of a
// checkout. The result compiles, with its tests, and runs on flyball.dev.
func TestMigrating(t *testing.T) {
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	original := *checkout
	if original == "" {
		original = kubebuilderProject(t)
	}
	for name, heading := range map[string]string{"replace": "Without a change of code: replace the module", "rewrite": "By its own name: rewrite the import paths"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "operator")
			command(t, ".", "cp", "-R", original, dir)
			command(t, dir, "sh", "-ec", "FLYBALL="+source+"\n"+recipe(t, string(doc), heading))
			command(t, dir, "go", "vet", "./...")
			deps := strings.Fields(command(t, dir, "go", "list", "-deps", "./..."))
			imports := map[string]bool{}
			for _, path := range deps {
				imports[path] = true
			}
			if !imports["flyball.dev/ctrl/manager"] {
				t.Error("the operator does not import flyball.dev/ctrl/manager")
			}
			if *checkout != "" {
				return
			}
			if got := imports["sigs.k8s.io/controller-runtime/pkg/manager"]; got != (name == "replace") {
				t.Errorf("the operator imports the manager by the path of controller-runtime: %t", got)
			}
			if version := command(t, dir, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/component-helpers"); strings.TrimSpace(version) != "v0.37.2" {
				t.Errorf("k8s.io/component-helpers is not aligned: %s", version)
			}
		})
	}
}

// kubebuilderProject returns the folder of a project that kubebuilder has made, with a kind, its controller
// and webhooks, and with unaligned.
func kubebuilderProject(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "kubebuilder", "init", "--domain", "example.com", "--repo", "example.com/me/shop", "--fetch-deps=false", "--skip-go-version-check")
	kind := []string{"--group", "shop", "--version", "v1", "--kind", "Order", "--make=false"}
	command(t, dir, append([]string{"kubebuilder", "create", "api", "--resource", "--controller"}, kind...)...)
	command(t, dir, append([]string{"kubebuilder", "create", "webhook", "--defaulting", "--programmatic-validation"}, kind...)...)
	command(t, dir, "flyball", "generate")
	if err := os.WriteFile(filepath.Join(dir, "internal/controller/unaligned.go"), []byte(unaligned), 0o666); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "go", "mod", "edit", "-require=k8s.io/component-helpers@v0.36.3")
	return dir
}

// recipe returns the commands of a section: its block that begins with the folder of flyball.
func recipe(t *testing.T, doc, heading string) string {
	_, section, ok := strings.Cut(doc, "\n## "+heading+"\n")
	block := regexp.MustCompile(`(?m)^    FLYBALL=.*\n((?:    .*\n)+)`).FindStringSubmatch(section)
	if !ok || block == nil {
		t.Fatalf("docs/migrating.md has no recipe under %q", heading)
	}
	return block[1]
}

// command runs a command in a folder and returns its output.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off")
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}
