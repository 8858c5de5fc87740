package dev

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/cmd/flyball/internal/testproject"
)

// kustomized is a project in Kubebuilder's layout, with patches of both kinds.
const kustomized = `
-- config/default/kustomization.yaml --
namespace: shop-system
namePrefix: shop-
resources: [../crd, ../rbac, ../manager]
-- config/crd/kustomization.yaml --
resources: [bases/widgets.yaml]
patches:
- path: patches/short.yaml
  target: {kind: CustomResourceDefinition}
-- config/crd/patches/short.yaml --
- op: add
  path: /spec/names/shortNames
  value: [wdg]
-- config/crd/bases/widgets.yaml --` + definition + `
-- config/crd/bases/gadgets.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
-- config/rbac/kustomization.yaml --
resources: [leader_election_role.yaml, service_account.yaml, binding.yaml]
-- config/rbac/leader_election_role.yaml --
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leader-election-role}
-- config/rbac/service_account.yaml --
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller-manager, namespace: system}
-- config/rbac/binding.yaml --
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leader-election}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leader-election-role}
subjects:
- {kind: ServiceAccount, name: controller-manager, namespace: system}
-- config/manager/kustomization.yaml --
resources: [manager.yaml]
-- config/manager/manager.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec: {template: {spec: {serviceAccountName: controller-manager}}}
-- config/samples/kustomization.yaml --
resources: [widget.yaml]
`

var generatedFiles = []string{"config/crd/bases/*.yaml", "config/webhook/manifests*.yaml"}

// Manifests are read as kustomize builds them, with those that are generated and not part of that yet.
func TestReadManifests(t *testing.T) {
	testproject.Extract(t, kustomized)
	r := &reader{generated: generatedFiles, scratch: t.TempDir()}
	in, err := newInstaller(&rest.Config{}, r)
	if err != nil {
		t.Fatal(err)
	}
	read := func() (all map[string]source, lines []string) {
		t.Helper()
		sources, lines, err := in.read()
		if err != nil {
			t.Fatal(err)
		}
		all = map[string]source{}
		for _, s := range sources {
			name := s.object.GetObjectKind().GroupVersionKind().Kind + " " + s.object.GetNamespace() + "/" + s.object.GetName()
			if _, ok := all[name]; ok {
				t.Errorf("%s was read twice", name)
			}
			all[name] = s
		}
		return all, lines
	}
	all, lines := read()
	for name, file := range map[string]string{
		"CustomResourceDefinition /widgets.example.com":      "config/crd/bases/widgets.yaml",
		"CustomResourceDefinition /gadgets.example.com":      "config/crd/bases/gadgets.yaml",
		"Role shop-system/shop-leader-election-role":         "config/rbac/leader_election_role.yaml",
		"RoleBinding shop-system/shop-leader-election":       "config/rbac/binding.yaml",
		"ServiceAccount shop-system/shop-controller-manager": "config/rbac/service_account.yaml",
	} {
		if s, ok := all[name]; !ok || s.file != file || len(s.object.GetAnnotations()) > 0 {
			t.Errorf("%s is from %q with annotations %v", name, s.file, all[name].object)
		}
	}
	if want := []string{"the operator acts as the service account shop-system/shop-controller-manager, with the roles in config/default"}; len(all) != 5 || !slices.Equal(lines, want) {
		t.Errorf("%d objects with the lines %q", len(all), lines)
	}
	if crd, ok := all["CustomResourceDefinition /widgets.example.com"].object.(*apiextensionsv1.CustomResourceDefinition); !ok ||
		!slices.Equal(crd.Spec.Names.ShortNames, []string{"wdg"}) {
		t.Error("the patch has no effect")
	}
	for path, want := range map[string]bool{
		"config/crd/patches/short.yaml": true, "config/default/kustomization.yaml": true, "config/crd/bases/new.yaml": true,
		"config/samples/kustomization.yaml": false, "README.md": false,
	} {
		if abs, err := filepath.Abs(path); err != nil || r.dependsOn(abs) != want {
			t.Errorf("dependsOn(%s) is %t, %v", path, !want, err)
		}
	}

	// Without one of its parts, as in a project without kinds, it cannot be built.
	if err := os.RemoveAll("config/crd"); err != nil {
		t.Fatal(err)
	}
	all, lines = read()
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "kustomize build config/default: ") || !strings.Contains(lines[0], "installed one by one") {
		t.Errorf("the lines are %q", lines)
	}
	if len(all) != 0 || !strings.Contains(lines[1], "as an administrator: no binding in config/rbac") {
		t.Errorf("%d objects with the lines %q", len(all), lines) // the Deployment is in config/manager
	}
	abs, err := filepath.Abs("config/crd/kustomization.yaml")
	if err != nil || !r.dependsOn(abs) {
		t.Errorf("what is missing does not matter: %v", err)
	}
}

// A role without a namespace is put where the operator is, also without a kustomization.
func TestNamespaceOfRoles(t *testing.T) {
	testproject.Extract(t, strings.ReplaceAll(kustomized, "kustomization.yaml --", "unused.yaml --"))
	if err := os.Rename("config/manager/manager.yaml", "config/rbac/manager.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove("config/rbac/unused.yaml"); err != nil {
		t.Fatal(err)
	}
	in, err := newInstaller(&rest.Config{}, &reader{generated: generatedFiles})
	if err != nil {
		t.Fatal(err)
	}
	all, lines, err := in.read()
	if err != nil || len(all) != 5 || len(lines) != 1 {
		t.Fatalf("%d objects with the lines %q, %v", len(all), lines, err)
	}
	for _, s := range all {
		if got := s.object.GetNamespace(); isRole(s) && got != "system" {
			t.Errorf("%s is in the namespace %q", s.file, got)
		}
	}
}

// A default in the file of a definition may be an integer that a float64 cannot hold.
func TestIntegers(t *testing.T) {
	s, err := decode(document{content: []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: integer, default: 9223372036854775807}}}]}
`)})
	if err != nil {
		t.Fatal(err)
	}
	definition := s.object.(*apiextensionsv1.CustomResourceDefinition)
	if got := string(definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Default.Raw); got != "9223372036854775807" {
		t.Errorf("the default is %s", got)
	}
}

// TestFoldersAreNoPatterns: only the last element of a pattern is one, and a link to the project changes nothing.
func TestFoldersAreNoPatterns(t *testing.T) {
	testproject.Extract(t, "-- p[12]/crds[12]/widgets.yaml --"+definition+"-- p[12]/crds1/other.yaml --\n")
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("p[12]", "link"); err != nil {
		t.Fatal(err)
	}
	for _, project := range []string{"p[12]", "link"} {
		t.Chdir(filepath.Join(root, project)) // sets PWD, as a shell does
		for _, r := range []*reader{{folders: []string{"crds[12]"}}, {generated: []string{"crds[12]/*.yaml"}}} {
			all, _, err := r.read()
			if err != nil || len(all) != 1 {
				t.Errorf("%s: read %d manifests, %v", project, len(all), err)
			}
			for name, want := range map[string]bool{"crds[12]/widgets.yaml": true, "crds[12]/new.yaml": true, "crds1/other.yaml": false} {
				path, err := filepath.Abs(name)
				if got := r.dependsOn(path); err != nil || got != want {
					t.Errorf("%s depends on %s: %v, %v", project, name, got, err)
				}
			}
		}
	}
}

// TestSplit: documents in YAML and in JSON are several.
func TestSplit(t *testing.T) {
	for text, want := range map[string]int{"a: b\n---\nc: d\n": 2, `{"a": "b"}` + "\n" + `{"c": "d"}` + "\n": 2, `{"a": "b"}`: 1} {
		if all, err := split("f", []byte(text)); err != nil || len(all) != want {
			t.Errorf("%q: %d documents, want %d: %v", text, len(all), want, err)
		}
	}
}
