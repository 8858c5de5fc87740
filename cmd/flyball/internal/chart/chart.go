// Package chart creates a Helm chart from the kustomization of a project.
//
// kustomize builds config/default with tokens for the namespace and the prefix, so that the chart uses the namespace
// and the name of the release wherever kustomize would use its own. The Deployment of the manager determines which
// objects depend on values, because its arguments name Secrets and ports.
package chart

import (
	"cmp"
	"errors"
	"fmt"
	gopath "path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Chart is a chart in memory. Paths are relative to its folder.
type Chart struct {
	// Values is values.yaml.
	Values []byte
	// Templates are generated again each time. Each begins with [Header].
	Templates map[string][]byte
	// Once lists the files that are only written if they are missing.
	Once map[string][]byte
	// Notes are for the user.
	Notes []string
}

// ValuesFile has the values. GeneratedValuesFile has the last generated values, so that [MergeValues] recognizes the
// user's edits.
const (
	ValuesFile          = "values.yaml"
	GeneratedValuesFile = ".values.generated.yaml"
)

// Header begins the templates. A file without it belongs to the user.
const Header = "{{- /* Made of config/default by flyball edit --plugins=helm/v2-alpha. Without this line, the file is left as it is. */ -}}\n"

// maker makes a chart.
type maker struct {
	name   string // of the chart
	source *source
	all    []*object

	deployment *object // of the manager
	account    string  // its service account
	features
	values values
	notes  []string
}

// Make makes the chart of the project in a folder.
func Make(folder, name string) (*Chart, error) {
	s, err := read(folder)
	if err != nil {
		return nil, err
	}
	m := &maker{name: name, source: s, all: slices.Concat(s.objects, s.optional)}
	if err := m.findManager(); err != nil {
		return nil, err
	}
	m.findFeatures()
	chart := &Chart{Templates: map[string][]byte{}}
	for _, o := range m.all {
		path := m.path(o)
		if path == "" {
			continue
		}
		condition := m.condition(o)
		m.edit(o)
		text, err := o.template(m.replaceTokens)
		if err != nil {
			return nil, err
		}
		if condition != "" {
			text = "{{- if " + condition + " }}\n" + text + "{{- end }}\n"
		}
		path = gopath.Join("templates", path)
		if chart.Templates[path] != nil {
			text = string(chart.Templates[path]) + "---\n" + text
		} else {
			text = Header + text
		}
		chart.Templates[path] = []byte(text)
	}
	chart.Templates["templates/_helpers.tpl"] = []byte(Header + m.helpers())
	if chart.Values, err = m.allValues().text(); err != nil {
		return nil, err
	}
	if strings.Contains(string(chart.Values), nameToken) || strings.Contains(string(chart.Values), namespaceToken) {
		return nil, fmt.Errorf("the manager's Deployment has the name or the namespace of the release in a field that is a value of the chart:\n%s", chart.Values)
	}
	chart.Once = m.once()
	chart.Notes = m.notes
	return chart, nil
}

// findManager finds the Deployment of the manager.
func (m *maker) findManager() error {
	var all, labelled []*object
	for _, o := range m.source.objects {
		if o.kind() == "Deployment" && o.group() == "apps" {
			all = append(all, o)
			if value(o.root, "metadata", "labels", "control-plane") == "controller-manager" {
				labelled = append(labelled, o)
			}
		}
	}
	switch {
	case len(labelled) == 1:
		m.deployment = labelled[0]
	case len(all) == 1:
		m.deployment = all[0]
	default:
		return fmt.Errorf("%s has %d Deployments: the Deployment of the manager, and no other, needs the label control-plane: controller-manager",
			kustomization, len(all))
	}
	if m.container() == nil {
		return errors.New("the Deployment of the manager has no container")
	}
	m.account = value(m.pod(), "serviceAccountName")
	return nil
}

func (m *maker) pod() *yaml.Node { return get(m.deployment.root, "spec", "template", "spec") }

// container returns the container of the manager: the one with that name, or the first one.
func (m *maker) container() *yaml.Node {
	containers := items(m.pod(), "containers")
	for _, c := range containers {
		if value(c, "name") == "manager" {
			return c
		}
	}
	if len(containers) == 0 {
		return nil
	}
	return containers[0]
}

// folders maps kinds to folders of templates, named like the folders in config.
var folders = map[string]string{
	"CustomResourceDefinition": "crd", "Deployment": "manager", "ServiceAccount": "rbac", "Role": "rbac", "RoleBinding": "rbac",
	"ClusterRole": "rbac", "ClusterRoleBinding": "rbac", "MutatingWebhookConfiguration": "webhook",
	"ValidatingWebhookConfiguration": "webhook", "Certificate": "certmanager", "Issuer": "certmanager",
	"ServiceMonitor": "prometheus", "NetworkPolicy": "network-policy",
}

// path returns the path of an object's template, or "" for objects without a template: Helm creates the namespace of
// the release, and objects of the chart's own definitions cannot be installed together with the definitions.
func (m *maker) path(o *object) string {
	if o.kind() == "Namespace" && o.name() == namespaceToken {
		return ""
	}
	if m.defines(o) {
		m.notes = append(m.notes, fmt.Sprintf("The %s %s is not in the chart: its kind is defined by the chart itself.", o.kind(),
			strings.TrimPrefix(o.name(), nameToken+"-")))
		return ""
	}
	folder := cmp.Or(folders[o.kind()], "extras")
	switch {
	case o.kind() == "Service" && m.isWebhookService(o):
		folder = "webhook"
	case o.kind() == "Service" && m.isMetricsService(o):
		folder = "metrics"
	}
	name := strings.TrimPrefix(strings.TrimPrefix(o.name(), nameToken), "-")
	if namespace := value(o.root, "metadata", "namespace"); namespace != "" && namespace != namespaceToken {
		name = namespace + "-" + name
	}
	if folder == "extras" {
		name = strings.ToLower(o.kind()) + "-" + name
	}
	return folder + "/" + strings.NewReplacer(":", "-", "/", "-", `\`, "-").Replace(name) + ".yaml"
}

// defines reports whether the kind of an object is defined by the chart.
func (m *maker) defines(o *object) bool {
	return slices.ContainsFunc(m.all, func(crd *object) bool {
		return crd.kind() == "CustomResourceDefinition" && value(crd.root, "spec", "group") == o.group() &&
			value(crd.root, "spec", "names", "kind") == o.kind()
	})
}

// replaceTokens replaces the tokens by expressions for the release.
func (m *maker) replaceTokens(text string) string {
	return strings.NewReplacer(namespaceToken, "{{ .Release.Namespace }}", nameToken, m.include("fullname")).Replace(text)
}

// include returns an expression that includes a helper.
func (m *maker) include(helper string) string {
	return fmt.Sprintf("{{ include %q . }}", m.name+"."+helper)
}

// longestService returns the length of the longest suffix that follows the release name in the name of a Service. Names
// of Services have at most 63 characters.
func (m *maker) longestService() (n int) {
	for _, o := range m.all {
		if rest, ok := strings.CutPrefix(o.name(), nameToken); ok && o.kind() == "Service" {
			n = max(n, len(rest))
		}
	}
	return n
}

// helpers returns the named templates.
func (m *maker) helpers() string {
	account := m.replaceTokens(m.account)
	return strings.NewReplacer("CHART", m.name, "LENGTH", fmt.Sprint(max(63-m.longestService(), 1)), "ACCOUNT", account).Replace(
		`{{- define "CHART.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- $name = .Values.fullnameOverride }}
{{- else if contains $name .Release.Name }}
{{- $name = .Release.Name }}
{{- else }}
{{- $name = printf "%s-%s" .Release.Name $name }}
{{- end }}
{{- $name | trunc LENGTH | trimSuffix "-" }}
{{- end }}

{{- define "CHART.serviceAccountName" -}}
{{- if .Values.serviceAccount.enabled -}}
ACCOUNT
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}
`)
}

// once returns the files that belong to the user once they are written.
func (m *maker) once() map[string][]byte {
	return map[string][]byte{
		"Chart.yaml": []byte(fmt.Sprintf(`apiVersion: v2
name: %s
description: The operator %[1]s.
type: application
# The version of the chart, and that of the operator, which is the tag of its image by default.
version: 0.1.0
appVersion: "0.1.0"
`, m.name)),
		".helmignore": []byte(`.git/
.gitignore
.DS_Store
*.swp
*.bak
*~
` + GeneratedValuesFile + "\n"),
		"templates/NOTES.txt": []byte(fmt.Sprintf(`%s is installed as {{ include "%[1]s.fullname" . }} in the namespace {{ .Release.Namespace }}.

  kubectl get deployments,pods -n {{ .Release.Namespace }} -l app.kubernetes.io/instance={{ .Release.Name }}
`, m.name)),
	}
}
