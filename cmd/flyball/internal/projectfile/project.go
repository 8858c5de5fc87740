// Package projectfile reads and writes the PROJECT file, in which Kubebuilder and Flyball keep the settings and the
// kinds of a project.
package projectfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Name is the name of the project file.
const Name = "PROJECT"

const (
	version = "3"
	layout  = "go.kubebuilder.io/v4"
	// plugin is the key of Flyball's settings.
	plugin = "flyball.dev/v1"
)

// layouts are the plugins of projects that Flyball can extend: the plugins of the supported layout, and plugins for
// files that Flyball does not change.
var layouts = []string{layout, "base.go.kubebuilder.io/v4", "kustomize.common.kubebuilder.io/v2",
	"grafana.kubebuilder.io/v1-alpha", "helm.kubebuilder.io/v1-alpha", "helm.kubebuilder.io/v2-alpha",
	"deploy-image.go.kubebuilder.io/v1-alpha", "autoupdate.kubebuilder.io/v1-alpha"}

// The runtimes that a project can use.
const (
	RuntimeFlyball           = "flyball"
	RuntimeControllerRuntime = "controller-runtime"
)

// Project is the content of a PROJECT file. The order of the fields is Kubebuilder's.
type Project struct {
	CLIVersion string         `yaml:"cliVersion,omitempty"`
	Domain     string         `yaml:"domain,omitempty"`
	Layout     stringList     `yaml:"layout,omitempty"`
	MultiGroup bool           `yaml:"multigroup,omitempty"`
	Plugins    map[string]any `yaml:"plugins,omitempty"`
	Name       string         `yaml:"projectName,omitempty"`
	Repo       string         `yaml:"repo,omitempty"`
	Resources  []*Resource    `yaml:"resources,omitempty"`
	Version    string         `yaml:"version"`
}

// Resource is a kind of a project. The kind is defined by the project itself, by Kubernetes (Core), or by another
// project (External).
type Resource struct {
	API        *API      `yaml:"api,omitempty"`
	Controller bool      `yaml:"controller,omitempty"`
	Core       bool      `yaml:"core,omitempty"`
	Domain     string    `yaml:"domain,omitempty"`
	External   bool      `yaml:"external,omitempty"`
	Group      string    `yaml:"group,omitempty"`
	Kind       string    `yaml:"kind"`
	Module     string    `yaml:"module,omitempty"`
	Path       string    `yaml:"path,omitempty"`
	Plural     string    `yaml:"plural,omitempty"` // if it is irregular
	Version    string    `yaml:"version"`
	Webhooks   *Webhooks `yaml:"webhooks,omitempty"`
}

// QualifiedGroup returns the API group in apiVersion.
func (r *Resource) QualifiedGroup() string {
	switch {
	case r.Core && r.Group == "core":
		return ""
	case r.Domain == "":
		return r.Group
	case r.Group == "":
		return r.Domain
	}
	return r.Group + "." + r.Domain
}

// API describes the Go type of a kind in the project.
type API struct {
	CRDVersion string `yaml:"crdVersion,omitempty"`
	Namespaced bool   `yaml:"namespaced,omitempty"`
}

// Webhooks are the webhooks of a kind.
type Webhooks struct {
	Conversion     bool     `yaml:"conversion,omitempty"`
	Defaulting     bool     `yaml:"defaulting,omitempty"`
	DefaultingPath string   `yaml:"defaultingPath,omitempty"`
	Spoke          []string `yaml:"spoke,omitempty"`
	Validation     bool     `yaml:"validation,omitempty"`
	ValidationPath string   `yaml:"validationPath,omitempty"`
	Version        string   `yaml:"webhookVersion,omitempty"`
}

// stringList is a list that may be written as a single string.
type stringList []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *stringList) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*l = stringList{node.Value}
		return nil
	}
	return node.Decode((*[]string)(l))
}

// Runtime returns the runtime of the project. Without a setting, it is controller-runtime, because Kubebuilder created
// the project.
func (p *Project) Runtime() string {
	if settings, ok := p.Plugins[plugin].(map[string]any); ok {
		if r, ok := settings["runtime"].(string); ok {
			return r
		}
	}
	return RuntimeControllerRuntime
}

// Generate returns the options for generating in the project's settings: one line for each run of the generators.
func (p *Project) Generate() (lines []string) {
	if settings, ok := p.Plugins[plugin].(map[string]any); ok {
		list, _ := settings["generate"].([]any)
		for _, item := range list {
			if line, ok := item.(string); ok {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// Find returns the resource of a kind in a version, or nil.
func (p *Project) Find(group, domain, version, kind string) *Resource {
	for _, r := range p.Resources {
		if r.Group == group && r.Domain == domain && r.Version == version && r.Kind == kind {
			return r
		}
	}
	return nil
}

// VersionsOf returns the resources of the same kind, in all versions.
func (p *Project) VersionsOf(r *Resource) []*Resource {
	var all []*Resource
	for _, o := range p.Resources {
		if o.Group == r.Group && o.Domain == r.Domain && o.Kind == r.Kind {
			all = append(all, o)
		}
	}
	return all
}

// Groups returns the qualified groups of the types in the project.
func (p *Project) Groups() []string {
	var all []string
	for _, r := range p.Resources {
		if r.API != nil && !slices.Contains(all, r.QualifiedGroup()) {
			all = append(all, r.QualifiedGroup())
		}
	}
	return all
}

// Read reads the PROJECT file of a directory, with any version and layout. It returns fs.ErrNotExist if there is none.
func Read(folder string) (*Project, error) {
	content, err := os.ReadFile(filepath.Join(folder, Name))
	if err != nil {
		return nil, err
	}
	p := &Project{}
	if err := yaml.Unmarshal(content, p); err != nil {
		return nil, syntaxError(err)
	}
	return p, p.checkSettings()
}

// checkSettings returns an error if a setting of Flyball has another type. An empty setting is none.
func (p *Project) checkSettings() error {
	const field = Name + ": plugins: " + plugin + ": "
	settings, ok := p.Plugins[plugin].(map[string]any)
	if !ok && p.Plugins[plugin] != nil {
		return errors.New(field + "must be a mapping, as in runtime: " + RuntimeFlyball)
	}
	if _, ok := settings["runtime"].(string); !ok && settings["runtime"] != nil {
		return errors.New(field + "runtime: must be a string")
	}
	lines, ok := settings["generate"].([]any)
	isOther := func(line any) bool { _, ok := line.(string); return !ok }
	if !ok && settings["generate"] != nil || slices.ContainsFunc(lines, isOther) {
		return errors.New(field + `generate: must be a list of strings, as in ["crd paths=./api/..."]`)
	}
	return nil
}

// Load reads the PROJECT file of a project that Flyball can extend. Errors name the file, the line, and a remedy.
func Load(folder string) (*Project, error) {
	file := filepath.Join(folder, Name)
	content, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		where, _ := filepath.Abs(folder)
		return nil, fmt.Errorf("there is no %s file in %s: change to the folder of a project, "+
			"or make one with flyball init", Name, where)
	case err != nil:
		return nil, err
	}
	return parse(content)
}

// parse parses the content of a PROJECT file.
func parse(content []byte) (*Project, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, syntaxError(err)
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	if len(document.Content) > 0 {
		root = document.Content[0]
	}
	found, line := value(root, "version")
	switch found {
	case version:
	case "":
		return nil, fmt.Errorf("%s: there is no version: a project of Kubebuilder has version: %q", Name, version)
	default:
		return nil, fmt.Errorf("%s:%d: version %q is not supported, only %q: "+
			"use the release of flyball or kubebuilder that wrote it, or migrate the project", Name, line, found, version)
	}
	p := &Project{}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(p); err != nil {
		return nil, syntaxError(err)
	}
	_, line = value(root, "layout")
	if !slices.Contains(p.Layout, layout) {
		return nil, fmt.Errorf("%s:%d: the layout must contain %s, and is %s: only projects of Kubebuilder v4 can be extended",
			Name, line, layout, strings.Join(p.Layout, ","))
	}
	for _, name := range p.Layout {
		if !slices.Contains(layouts, name) {
			return nil, fmt.Errorf("%s:%d: the plugin %s is not known: use kubebuilder with that plugin",
				Name, line, name)
		}
	}
	if err := p.checkSettings(); err != nil {
		return nil, err
	}
	if r := p.Runtime(); r != RuntimeFlyball && r != RuntimeControllerRuntime {
		_, line = value(root, "plugins")
		return nil, fmt.Errorf("%s:%d: the runtime %q is not known: it is %s or %s", Name, line, r,
			RuntimeFlyball, RuntimeControllerRuntime)
	}
	if p.Repo == "" {
		return nil, fmt.Errorf("%s: there is no repo: add the path of the module in go.mod, as in repo: example.com/project", Name)
	}
	return p, nil
}

// value returns the value of a key of a mapping, and its line; if it is missing, the line is 1.
func value(mapping *yaml.Node, key string) (string, int) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1].Value, mapping.Content[i].Line
		}
	}
	return "", 1
}

var (
	lineOfError  = regexp.MustCompile(`line (\d+): `)
	unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
)

// syntaxError rewrites an error of the YAML library, so that the file and the line come first.
func syntaxError(err error) error {
	text := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  "), "\n  ", "; ")
	text = unknownField.ReplaceAllString(text, "the field $1 is not known: use the release of flyball or kubebuilder that wrote it")
	place := Name
	if match := lineOfError.FindStringSubmatch(text); match != nil {
		line, _ := strconv.Atoi(match[1]) // it consists of digits
		text = strings.Replace(text, match[0], "", 1)
		if strings.HasPrefix(text, "did not find expected") {
			line++ // the parser, unlike the scanner, counts lines from 0
		}
		place += ":" + strconv.Itoa(line)
	}
	return fmt.Errorf("%s: %s", place, text)
}

// Header is the first line of the PROJECT file of a new project.
const Header = "# This file describes the project to flyball and kubebuilder, which read and write it.\n"

// New returns a project without kinds.
func New(domain, repo, name, runtime string) *Project {
	return &Project{Domain: domain, Repo: repo, Name: name, Layout: stringList{layout}, Version: version,
		Plugins: map[string]any{plugin: map[string]any{"runtime": runtime}}}
}

// Encode returns the content of the PROJECT file. It keeps the leading comment of before.
func (p *Project) Encode(before []byte) ([]byte, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(before) {
		if !bytes.HasPrefix(line, []byte("#")) {
			break
		}
		out.Write(line)
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(p); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}
