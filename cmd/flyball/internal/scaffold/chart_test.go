package scaffold

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"flyball.dev/cmd/flyball/internal/chart"
)

// newChart returns a new project with a chart.
func newChart(t *testing.T) string {
	t.Helper()
	folder := newFolder(t)
	editChart(t, folder)
	return folder
}

func editChart(t *testing.T, folder string) *Changes {
	t.Helper()
	changes, err := Edit(t.Context(), folder, EditOptions{Plugins: []string{"helm"}})
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// TestChartAgain: a chart that is up to date is not written again, and not by PROJECT either.
func TestChartAgain(t *testing.T) {
	folder := newChart(t)
	before := tree(t, folder)
	changes := editChart(t, folder)
	if len(changes.Created)+len(changes.Updated)+len(changes.Removed)+len(changes.Notes) > 0 {
		t.Errorf("%+v", changes)
	}
	for path, content := range tree(t, folder) {
		if before[path] != content {
			t.Errorf("%s has changed", path)
		}
	}
}

// TestChartKeeps checks that edited values stay, and all others follow config.
func TestChartKeeps(t *testing.T) {
	folder := newChart(t)
	write(t, folder, "dist/chart/Chart.yaml", "mine")
	write(t, folder, "dist/chart/templates/mine.yaml", "mine")
	own := "dist/chart/templates/rbac/metrics-reader.yaml"
	write(t, folder, own, strings.TrimPrefix(read(t, folder, own), chart.Header)+"# mine\n")
	values := "dist/chart/values.yaml"
	replace(t, folder, values, "replicas: 1", "replicas: 3 # mine")
	replace(t, folder, "config/manager/manager.yaml", "replicas: 1", "replicas: 2")
	replace(t, folder, "config/manager/manager.yaml", "memory: 128Mi", "memory: 256Mi")
	replace(t, folder, "config/rbac/kustomization.yaml", "- metrics_auth_role.yaml\n- metrics_auth_role_binding.yaml\n", "")
	changes := editChart(t, folder)
	for path, text := range map[string]string{"dist/chart/Chart.yaml": "mine", "dist/chart/templates/mine.yaml": "mine",
		own: "# mine\n", values: "replicas: 3 # mine\n"} {
		if !strings.Contains(read(t, folder, path), text) {
			t.Errorf("%s has no %q any more:\n%s", path, text, read(t, folder, path))
		}
	}
	if !strings.Contains(read(t, folder, values), "memory: 256Mi") {
		t.Errorf("the memory is not that of config:\n%s", read(t, folder, values))
	}
	if want := []string{"dist/chart/templates/rbac/metrics-auth-role.yaml", "dist/chart/templates/rbac/metrics-auth-rolebinding.yaml"}; !slices.Equal(changes.Removed, want) {
		t.Errorf("removed %q, want %q", changes.Removed, want)
	}
	want := []string{"dist/chart/templates/rbac/metrics-reader.yaml is left as it is: it does not begin with the line of what is generated.",
		"dist/chart/values.yaml keeps manager.replicas, for which config/default has another value."}
	if !slices.Equal(changes.Notes, want) {
		t.Errorf("the notes are %q, want %q", changes.Notes, want)
	}
	if changes, err := Edit(t.Context(), folder, EditOptions{Plugins: []string{helmPlugin}, Force: true}); err != nil ||
		!strings.Contains(read(t, folder, values), "replicas: 2\n") {
		t.Errorf("with force: %+v, %v, and the values are\n%s", changes, err, read(t, folder, values))
	}
}

// TestChartOfANewFeature checks that the values of webhooks appear with the webhooks, after the edited values.
func TestChartOfANewFeature(t *testing.T) {
	folder := newKind(t)
	write(t, folder, "config/crd/bases/shop.example.com_orders.yaml",
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: orders.shop.example.com\n")
	editChart(t, folder)
	values := "dist/chart/values.yaml"
	write(t, folder, values, "# mine\n"+read(t, folder, values))
	write(t, folder, "config/webhook/manifests.yaml", `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: mutating-webhook-configuration
webhooks:
- name: order.example.com
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate}}
`)
	if _, err := CreateWebhook(t.Context(), folder, WebhookOptions{KindOptions: kind("Order"), Defaulting: true}); err != nil {
		t.Fatal(err)
	}
	editChart(t, folder)
	var all struct {
		Webhook     struct{ Enabled bool }
		CertManager struct{ Enabled bool } `yaml:"certManager"`
	}
	if err := yaml.Unmarshal([]byte(read(t, folder, values)), &all); err != nil || !all.Webhook.Enabled || !all.CertManager.Enabled {
		t.Errorf("%+v, %v", all, err)
	}
	if !strings.HasPrefix(read(t, folder, values), "# mine\n") {
		t.Errorf("a comment is gone:\n%s", read(t, folder, values))
	}
}

func TestChartBadInput(t *testing.T) {
	for _, tt := range []struct {
		name    string
		files   map[string]string
		options EditOptions
		want    string
	}{
		{"a plugin", nil, EditOptions{Plugins: []string{"grafana"}}, `--plugins "grafana" is not known: only helm/v2-alpha is`},
		{"no plugin", nil, EditOptions{Force: true}, "--force and --output-dir need --plugins=helm/v2-alpha"},
		{"nothing", nil, EditOptions{}, "there is nothing to do"},
		{"a folder elsewhere", nil, EditOptions{Plugins: []string{"helm"}, OutputDir: "../x"}, "must be a folder of the project"},
		{"values that are a list", map[string]string{"dist/chart/values.yaml": "- a\n"}, EditOptions{}, "dist/chart/values.yaml: line 1: the values are not a mapping"},
		{"values that are no YAML", map[string]string{"dist/chart/values.yaml": "a: [\n"}, EditOptions{}, "dist/chart/values.yaml: yaml: line 1"},
		{"a kustomization that does not build", map[string]string{"config/rbac/kustomization.yaml": "resources: [none.yaml]\n"}, EditOptions{}, "kustomize build config/default: "},
		{"a kustomization that is no YAML", map[string]string{"config/default/kustomization.yaml": "a: [\n"}, EditOptions{}, "config/default/kustomization.yaml: yaml: line 1"},
		{"no manager", map[string]string{"config/manager/kustomization.yaml": "resources: []\n", "config/default/manager_metrics_patch.yaml": "[]"},
			EditOptions{}, "config/default has 0 Deployments"},
		{"a folder that is a file", map[string]string{"dist": ""}, EditOptions{Plugins: []string{"helm"}}, "not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := newFolder(t)
			for path, content := range tt.files {
				write(t, folder, path, content)
			}
			if tt.files != nil {
				tt.options.Plugins = []string{helmPlugin}
			}
			testUnchanged(t, folder, tt.want, func(ctx context.Context) error {
				_, err := Edit(ctx, folder, tt.options)
				return err
			})
		})
	}
	folder := newFolder(t)
	if err := os.RemoveAll(filepath.Join(folder, "config")); err != nil {
		t.Fatal(err)
	}
	testUnchanged(t, folder, "there is no config/default to make a chart from", func(ctx context.Context) error {
		_, err := Edit(ctx, folder, EditOptions{Plugins: []string{helmPlugin}})
		return err
	})
}

// TestChartBeforeGenerate checks that the error for a missing generated file names the file and the command.
func TestChartBeforeGenerate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		remove string
		create func(t *testing.T, folder string) error
	}{
		{"the definition of a new kind", "config/crd/bases/shop.example.com_orders.yaml", func(t *testing.T, folder string) error {
			_, err := CreateAPI(t.Context(), folder, APIOptions{KindOptions: kind("Order"), Resource: true})
			return err
		}},
		{"the role", "config/rbac/role.yaml", func(*testing.T, string) error { return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := newFolder(t)
			if err := tt.create(t, folder); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(folder, filepath.FromSlash(tt.remove))); err != nil {
				t.Fatal(err)
			}
			testUnchanged(t, folder, "config/default needs "+tt.remove+": run flyball generate first", func(ctx context.Context) error {
				_, err := Edit(ctx, folder, EditOptions{Plugins: []string{helmPlugin}})
				return err
			})
		})
	}
}

// TestWorkflows checks that the workflows are valid and run targets of the Makefile.
func TestWorkflows(t *testing.T) {
	folder := newFolder(t)
	makefile := read(t, folder, "Makefile")
	for path, want := range map[string][]string{
		".github/workflows/test.yml":     {"go mod tidy -diff", "make test", "git diff --exit-code", "make lint-config lint"},
		".github/workflows/test-e2e.yml": {"make test-e2e"},
	} {
		var workflow struct {
			Name string
			On   map[string]any
			Jobs map[string]struct {
				Steps []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, folder, path)), &workflow); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var commands []string
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if step.Run != "" {
					commands = append(commands, step.Run)
				}
			}
		}
		if slices.Sort(commands); workflow.Name == "" || len(workflow.On) == 0 || !slices.Equal(commands, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: %q runs %q on %v, want %q", path, workflow.Name, commands, workflow.On, want)
		}
		for _, command := range commands {
			targets, ok := strings.CutPrefix(command, "make ")
			for target := range strings.FieldsSeq(targets) {
				if ok && !regexp.MustCompile(`(?m)^`+target+`:`).MatchString(makefile) {
					t.Errorf("%s: the Makefile has no target %s", path, target)
				}
			}
		}
	}
}
