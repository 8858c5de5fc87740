package test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestCharts makes the charts of several projects, and renders them with Helm's library: by default they are what
// kustomize builds, and an API server accepts them whatever their values are.
func TestCharts(t *testing.T) {
	plane := startPlane(t)
	for _, tt := range []struct {
		name    string
		project func(t *testing.T, p *project)
	}{
		{"all", func(t *testing.T, p *project) {
			p.flyball("init", "--domain", "example.com", "--repo", "example.com/me/shop", "--project-name", "shop", "--fetch-deps=false", "--skip-go-version-check")
			p.flyball("create", "api", "--group", "shop", "--version", "v1", "--kind", "Order", "--make=false")
			p.flyball("create", "api", "--group", "shop", "--version", "v1beta1", "--kind", "Order", "--make=false")
			p.flyball("create", "webhook", "--group", "shop", "--version", "v1", "--kind", "Order", "--defaulting", "--programmatic-validation",
				"--conversion", "--spoke", "v1beta1")
			p.uncomment("METRICS-WITH-CERTS")
		}},
		{"no webhooks", func(t *testing.T, p *project) {
			p.flyball("init", "--domain", "example.com", "--repo", "example.com/me/shop", "--project-name", "shop", "--fetch-deps=false", "--skip-go-version-check")
			p.flyball("create", "api", "--group", "shop", "--version", "v1", "--kind", "Order")
		}},
		{"kubebuilder", func(t *testing.T, p *project) {
			p.run("kubebuilder", "init", "--domain", "example.com", "--repo", "example.com/me/shop", "--project-name", "shop", "--fetch-deps=false", "--skip-go-version-check")
			p.run("kubebuilder", "create", "api", "--group", "shop", "--version", "v1", "--kind", "Order", "--resource", "--controller", "--make=false")
			p.run("kubebuilder", "create", "webhook", "--group", "shop", "--version", "v1", "--kind", "Order", "--defaulting", "--make=false")
			p.offline()
			p.flyball("generate")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &project{t: t, folder: t.TempDir()}
			tt.project(t, p)
			p.flyball("edit", "--plugins=helm/v2-alpha")
			rendered := p.render("shop", nil)
			sameObjects(t, rendered, parse(t, p.run("kustomize", "build", "config/default")))
			if strings.Contains(fmt.Sprint(rendered), "SERVICE_NAME") && tt.name != "kubebuilder" { // which leaves one
				t.Error("the name of a Service is not replaced")
			}
			for name, values := range flipped(p.values()) {
				if tt.name != "all" && name != "everything" {
					continue
				}
				t.Run(name, func(t *testing.T) {
					plane.accepts(t, p.render("shop", values))
				})
			}
			plane.accepts(t, rendered)
			plane.accepts(t, p.render(strings.Repeat("a", 53), nil)) // the longest name of a release
			p.renderCombinations()
		})
	}
}

// project is a project in a folder.
type project struct {
	t      *testing.T
	folder string
}

// run runs a program in the folder of the project, and returns its output.
func (p *project) run(program string, args ...string) []byte {
	p.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = p.folder
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.Bytes())
	}
	return out
}

func (p *project) flyball(args ...string) { p.t.Helper(); p.run("flyball", args...) }

// uncomment uncomments the lines of config/default that end with a mark, as its comment says.
func (p *project) uncomment(mark string) {
	p.edit("config/default/kustomization.yaml", regexp.MustCompile(`(?m)^#(.*# `+mark+`)$`), "$1")
}

// offline makes a Kubebuilder project require only modules that these tests already use.
func (p *project) offline() {
	p.run("go", "mod", "edit", "-require=sigs.k8s.io/controller-runtime@v0.25.2", "-require=k8s.io/api@v0.37.2",
		"-require=k8s.io/apimachinery@v0.37.2", "-require=k8s.io/client-go@v0.37.2", "-require=k8s.io/apiserver@v0.37.2",
		"-require=k8s.io/apiextensions-apiserver@v0.37.2", "-require=k8s.io/component-base@v0.37.2", "-require=k8s.io/streaming@v0.37.2")
	p.run("go", "mod", "tidy")
}

// edit replaces the matches of a pattern in a file.
func (p *project) edit(path string, pattern *regexp.Regexp, text string) {
	p.t.Helper()
	name := filepath.Join(p.folder, path)
	content, err := os.ReadFile(name)
	if err != nil {
		p.t.Fatal(err)
	}
	changed := pattern.ReplaceAll(content, []byte(text))
	if bytes.Equal(changed, content) {
		p.t.Fatalf("%s has no %s", path, pattern)
	}
	if err := os.WriteFile(name, changed, 0o666); err != nil {
		p.t.Fatal(err)
	}
}

// values returns the values of the chart.
func (p *project) values() map[string]any {
	p.t.Helper()
	chart, err := loader.Load(filepath.Join(p.folder, "dist", "chart"))
	if err != nil {
		p.t.Fatal(err)
	}
	return chart.Values
}

// render renders the chart as a release in the namespace shop-system.
func (p *project) render(release string, values map[string]any) []*unstructured.Unstructured {
	p.t.Helper()
	chart, err := loader.Load(filepath.Join(p.folder, "dist", "chart"))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		p.t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: release, Namespace: "shop-system", IsInstall: true, Revision: 1}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		p.t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(path, ".yaml") {
			objects = append(objects, parse(p.t, []byte(files[path]))...)
		}
	}
	return objects
}

// renderCombinations renders the chart with all combinations of the switches on which the manager depends.
func (p *project) renderCombinations() {
	p.t.Helper()
	switches := slices.DeleteFunc(switchesOf(p.values(), ""), func(path string) bool {
		return strings.HasPrefix(path, "crd.") || strings.HasPrefix(path, "rbac.") || strings.HasPrefix(path, "serviceAccount.")
	})
	for bits := range 1 << len(switches) {
		values := map[string]any{}
		for i, path := range switches {
			setValue(values, path, bits>>i&1 == 1)
		}
		for _, obj := range p.render("shop", values) {
			p.check(obj, values)
		}
	}
}

// check checks conditions that an API server does not: mounted volumes exist.
func (p *project) check(obj *unstructured.Unstructured, values map[string]any) {
	p.t.Helper()
	if obj.GetKind() != "Deployment" {
		return
	}
	spec := obj.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	volumes := map[string]bool{}
	list, _ := spec["volumes"].([]any)
	for _, v := range list {
		volumes[v.(map[string]any)["name"].(string)] = true
	}
	container := spec["containers"].([]any)[0].(map[string]any)
	mounts, _ := container["volumeMounts"].([]any)
	if len(mounts) != len(list) {
		p.t.Errorf("with %v there are %d volumes and %d mounts", values, len(list), len(mounts))
	}
	for _, m := range mounts {
		m := m.(map[string]any)
		if !volumes[m["name"].(string)] {
			p.t.Errorf("with %v the volume %s is missing", values, m["name"])
		}
		if !strings.Contains(fmt.Sprint(container["args"]), m["mountPath"].(string)) {
			p.t.Errorf("with %v no argument has %s", values, m["mountPath"])
		}
	}
}

// switchesOf returns the paths of the values that are true or false.
func switchesOf(values map[string]any, path string) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch v := values[key].(type) {
		case bool:
			if !strings.Contains(path, "ontext") { // of security contexts
				all = append(all, path+key)
			}
		case map[string]any:
			all = append(all, switchesOf(v, path+key+".")...)
		}
	}
	return all
}

// setValue sets a value by its path.
func setValue(values map[string]any, path string, value any) {
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		if values[key] == nil {
			values[key] = map[string]any{}
		}
		values = values[key].(map[string]any)
	}
	values[keys[len(keys)-1]] = value
}

// flipped returns values that differ from the defaults, each in one value, and some that differ in all values.
func flipped(values map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	everything := map[string]any{}
	flip := func(path string, value any) {
		one := map[string]any{}
		setValue(one, path, value)
		setValue(everything, path, value)
		all[path] = one
	}
	for _, path := range switchesOf(values, "") {
		keys, value := strings.Split(path, "."), any(values)
		for _, key := range keys {
			value = value.(map[string]any)[key]
		}
		flip(path, !value.(bool))
	}
	manager := map[string]any{
		"replicas": 0, "image": map[string]any{"repository": "example.com:5000/shop", "tag": "sha256:" + strings.Repeat("a", 64), "pullPolicy": "Always"},
		"args": []any{"--leader-elect=false"}, "env": []any{map[string]any{"name": "A", "value": "{{ b }}"}},
		"resources": map[string]any{}, "securityContext": map[string]any{"readOnlyRootFilesystem": true},
		"podSecurityContext": map[string]any{"runAsUser": 1}, "imagePullSecrets": []any{map[string]any{"name": "secret"}},
		"nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"operator": "Exists"}},
		"affinity":                  map[string]any{"podAntiAffinity": map[string]any{}},
		"topologySpreadConstraints": []any{map[string]any{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}},
		"priorityClassName":         "system-node-critical", "terminationGracePeriodSeconds": 0,
	}
	flip("manager", manager)
	flip("fullnameOverride", "full")
	flip("nameOverride", "other")
	flip("serviceAccount.name", "another")
	flip("serviceAccount.annotations", map[string]any{"a": "b"})
	if values["webhook"] != nil {
		flip("webhook.caBundle", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==")
		delete(all, "webhook.caBundle") // has no effect by itself
	}
	all["everything"] = everything
	return all
}

// parse returns the objects of a YAML stream.
func parse(t *testing.T, content []byte) (all []*unstructured.Unstructured) {
	t.Helper()
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, content)
		}
		if len(obj.Object) > 0 {
			all = append(all, obj)
		}
	}
}

// sameObjects compares Helm's objects with kustomize's. Only the labels of releases may differ, and the annotation with
// which Helm keeps definitions.
func sameObjects(t *testing.T, rendered, built []*unstructured.Unstructured) {
	t.Helper()
	byName := func(all []*unstructured.Unstructured) map[string]map[string]any {
		m := map[string]map[string]any{}
		for _, obj := range all {
			name := fmt.Sprintf("%s %s %s/%s", obj.GetAPIVersion(), obj.GetKind(), obj.GetNamespace(), obj.GetName())
			if m[name] != nil {
				t.Errorf("%s is there twice", name)
			}
			m[name] = withoutRelease(obj.Object).(map[string]any)
		}
		return m
	}
	got, want := byName(rendered), byName(built)
	delete(want, "v1 Namespace /shop-system") // Helm makes it
	for name := range want {
		if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s is\n%v\nand kustomize builds\n%v", name, got[name], want[name])
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("kustomize does not build %s", name)
	}
}

// withoutRelease returns a value without the labels of releases and without empty values.
func withoutRelease(value any) any {
	switch value := value.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, v := range value {
			switch key {
			case "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart", "helm.sh/resource-policy":
				continue
			}
			if v = withoutRelease(v); v != nil {
				m[key] = v
			}
		}
		if len(m) == 0 {
			return nil
		}
		return m
	case []any:
		var l []any
		for _, v := range value {
			l = append(l, withoutRelease(v))
		}
		if len(l) == 0 {
			return nil
		}
		return l
	}
	return value
}

// plane is a control plane that runs.
type plane struct{ kubeconfig string }

// startPlane starts a control plane with the definitions of cert-manager and of the Prometheus operator, and the
// namespace of releases.
func startPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{filepath.Join(t.TempDir(), "kubeconfig")}
	cmd := exec.Command("flyball", "up", "--kubeconfig", p.kubeconfig)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if _, err := out.Read(make([]byte, 1)); err != nil { // it prints a line when it is ready
		t.Fatal(err)
	}
	p.kubectl(t, nil, "apply", "--server-side", "-f", "testdata/charts")
	p.kubectl(t, nil, "wait", "crd", "--all", "--for=condition=Established")
	return p
}

func (p *plane) kubectl(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	cmd := exec.Command("kubectl", append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// accepts checks that the API server would accept objects, by server-side apply as Helm 4 does it.
func (p *plane) accepts(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	var all bytes.Buffer
	for _, obj := range objects {
		content, err := obj.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	p.kubectl(t, all.Bytes(), "apply", "--server-side", "--dry-run=server", "-f", "-")
}
