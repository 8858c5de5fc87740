package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	gopath "path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Tokens that kustomize inserts for the namespace and the name of the release. kustomize knows all references.
const (
	namespaceToken = "flyball-release-namespace"
	nameToken      = "flyball-release-name"
)

// kustomization is the folder that make deploy applies, relative to the project.
const kustomization = "config/default"

// extras are folders that config/default may omit, with the values that enable their objects.
var extras = []struct{ folder, value string }{
	{"../prometheus", "prometheus"},
	{"../network-policy", "networkPolicy"},
}

// source holds the objects that kustomize builds from a project.
type source struct {
	objects  []*object
	prefix   string // of the names, without a hyphen at the end
	optional []*object
}

// read builds the kustomization of a project, and a second time with the omitted folders.
func read(folder string) (*source, error) {
	file, content, err := readKustomization(filepath.Join(folder, kustomization))
	if err != nil {
		return nil, err
	}
	s := &source{prefix: trimHyphen(content.prefix())}
	if s.objects, err = content.build(file, nil); err != nil {
		return nil, err
	}
	var left []string
	for _, extra := range extras {
		if isKustomization(filepath.Join(filepath.Dir(file), extra.folder)) && !content.includes(extra.folder) {
			left = append(left, extra.folder)
		}
	}
	if len(left) == 0 {
		return s, nil
	}
	all, err := content.build(file, left)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if !slices.ContainsFunc(s.objects, o.same) {
			s.optional = append(s.optional, o)
		}
	}
	return s, nil
}

// document is the content of a kustomization.yaml.
type document map[string]any

// readKustomization reads the file of a kustomization.
func readKustomization(folder string) (string, document, error) {
	folder, err := filepath.Abs(folder)
	if err == nil {
		folder, err = filepath.EvalSymlinks(folder)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("there is no %s to make a chart from: change to the folder of the project", kustomization)
	}
	if err != nil {
		return "", nil, err
	}
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := filepath.Join(folder, name)
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		d := document{}
		if err := yaml.Unmarshal(content, &d); err != nil {
			return "", nil, fmt.Errorf("%s/%s: %w", kustomization, name, err)
		}
		return file, d, nil
	}
	return "", nil, fmt.Errorf("%s has no kustomization.yaml", kustomization)
}

func isKustomization(folder string) bool {
	return slices.ContainsFunc(konfig.RecognizedKustomizationFileNames(), func(name string) bool {
		info, err := os.Stat(filepath.Join(folder, name))
		return err == nil && info.Mode().IsRegular()
	})
}

func (d document) prefix() string {
	prefix, _ := d["namePrefix"].(string)
	return prefix
}

// includes reports whether a folder is one of the resources or components.
func (d document) includes(folder string) bool {
	for _, key := range []string{"resources", "components", "bases"} {
		list, _ := d[key].([]any)
		for _, item := range list {
			if path, ok := item.(string); ok && filepath.Clean(path) == filepath.Clean(folder) {
				return true
			}
		}
	}
	return false
}

// build builds the kustomization with further resources, and with tokens for the namespace and prefix.
func (d document) build(file string, further []string) ([]*object, error) {
	changed := document{}
	for key, value := range d {
		changed[key] = value
	}
	if _, ok := d["namespace"]; ok {
		changed["namespace"] = namespaceToken
	}
	if prefix := d.prefix(); prefix != "" {
		changed["namePrefix"] = nameToken + prefix[len(trimHyphen(prefix)):]
	}
	resources, _ := d["resources"].([]any)
	resources = slices.Clone(resources)
	for _, folder := range further {
		resources = append(resources, folder)
	}
	changed["resources"] = resources
	content, err := yaml.Marshal(changed)
	if err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = kustomize.LoadRestrictionsNone // as projects that share files between folders need
	disk := &overlay{FileSystem: filesys.MakeFsOnDisk(), file: file, content: content}
	all, err := krusty.MakeKustomizer(options).Run(disk, filepath.Dir(file))
	if err != nil {
		if missing := disk.notGenerated(); len(missing) > 0 {
			return nil, fmt.Errorf("%s needs %s: run flyball generate first", kustomization, strings.Join(missing, ", "))
		}
		return nil, fmt.Errorf("kustomize build %s: %w", kustomization, err)
	}
	var objects []*object
	for _, resource := range all.Resources() {
		content, err := resource.Map()
		if err != nil {
			return nil, err
		}
		o, err := newObject(content)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// overlay is a file system with other content for one file, the kustomization.
type overlay struct {
	filesys.FileSystem
	file    string
	content []byte
	missing []string // files that were to be read and do not exist
}

// ReadFile implements filesys.FileSystem.
func (o *overlay) ReadFile(path string) ([]byte, error) {
	if path == o.file {
		return o.content, nil
	}
	content, err := o.FileSystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		o.missing = append(o.missing, path)
	}
	return content, err
}

// generated are the files of a project that flyball generate writes, as patterns.
var generated = []string{"config/crd/bases/*.yaml", "config/rbac/role.yaml", "config/webhook/manifests.yaml"}

// notGenerated returns the missing files that flyball generate writes, relative to the project.
func (o *overlay) notGenerated() (missing []string) {
	root := strings.TrimSuffix(filepath.Dir(o.file), filepath.FromSlash(kustomization))
	for _, path := range o.missing {
		name, err := filepath.Rel(root, path)
		if err != nil {
			continue
		}
		name = filepath.ToSlash(name)
		isGenerated := slices.ContainsFunc(generated, func(pattern string) bool {
			ok, _ := gopath.Match(pattern, name) // fails only for a bad pattern
			return ok
		})
		if isGenerated && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func trimHyphen(prefix string) string {
	if n := len(prefix); n > 0 && prefix[n-1] == '-' {
		return prefix[:n-1]
	}
	return prefix
}
