package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// managerProject is a project with a manager. Its configuration contains names that kustomize creates, and its selector
// has no matchLabels.
var managerProject = map[string]string{
	"config/default/kustomization.yaml": "namespace: shop-system\nnamePrefix: shop-\nresources: [../manager]\n",
	"config/manager/kustomization.yaml": `resources: [manager.yaml]
configMapGenerator:
- name: settings
  literals: [a=b]
`,
	"config/manager/manager.yaml": `apiVersion: v1
kind: Namespace
metadata: {name: system, labels: {control-plane: controller-manager}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system, labels: {control-plane: controller-manager}}
spec:
  selector: {matchExpressions: [{key: control-plane, operator: Exists}]}
  template:
    metadata: {labels: {control-plane: controller-manager}}
    spec:
      containers:
      - name: manager
        image: controller:latest
        args: [--leader-elect]
        env:
        - {name: PLAIN, value: x}
        - name: SETTING
          valueFrom: {configMapKeyRef: {name: settings, key: a}}
`,
}

// TestNamesOfTheRelease checks that text that depends on the release is in templates and not in the values.
func TestNamesOfTheRelease(t *testing.T) {
	folder := t.TempDir()
	for name, content := range managerProject {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chart, err := Make(folder, "shop")
	if err != nil {
		t.Fatal(err)
	}
	templates := ""
	for _, text := range chart.Templates {
		templates += string(text)
	}
	for text, contain := range map[string][]string{
		string(chart.Values): {"PLAIN", "--leader-elect"},
		templates:            {"name: SETTING", `include "shop.fullname"`},
	} {
		for _, want := range contain {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
	}
	if strings.Contains(string(chart.Values), "SETTING") || strings.Contains(string(chart.Values)+templates, "flyball-release") {
		t.Errorf("values:\n%s\ntemplates:\n%s", chart.Values, templates)
	}
}
