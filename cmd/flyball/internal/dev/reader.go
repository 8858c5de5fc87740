package dev

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"flyball.dev/internal/manifest"
)

// Kubebuilder's projects deploy projectKustomization. The folder rbacFolder is a part of it.
const (
	projectKustomization = "config/default"
	rbacFolder           = "config/rbac"
)

// reader reads the manifests of a project: the manifests in the given folders, or the manifests that the project
// deploys, together with generated manifests that it does not deploy.
type reader struct {
	folders   []string // that are given
	generated []string // patterns of the files that are generated, each a folder and a pattern of names
	scratch   string   // a folder for kustomizations

	mu             sync.Mutex // protects the fields below
	kustomizations map[string]*kustomization
	patterns       []string // of the files that are read as they are
	failed         bool     // the last build of a kustomization
}

// read reads the manifests. line explains if they differ from the manifests that the project deploys.
func (r *reader) read() (all []document, line string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.patterns, r.failed = nil, false
	if len(r.folders) > 0 {
		all, err = r.readFolders(r.folders)
		return all, "", err
	}
	if isKustomization(projectKustomization) {
		all, err = r.readFolders([]string{projectKustomization})
		if err == nil {
			generated, err := r.readFiles(r.generated)
			return append(all, generated...), "", err
		}
		line = fmt.Sprintf("%v\nso the manifests in %s and %s are installed one by one", err, rbacFolder, strings.Join(r.generated, ", "))
	}
	if all, err = r.readFolders([]string{rbacFolder}); err != nil {
		return nil, line, err
	}
	generated, err := r.readFiles(r.generated)
	return append(all, generated...), line, err
}

// source describes the origin of the manifests for users.
func (r *reader) source() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.folders) > 0:
		return strings.Join(r.folders, ", ")
	case isKustomization(projectKustomization) && !r.failed:
		return projectKustomization
	}
	return rbacFolder
}

// readFolders reads folders. It builds folders with a kustomization in the same way as kustomize.
func (r *reader) readFolders(folders []string) (all []document, err error) {
	for _, folder := range folders {
		var documents []document
		if isKustomization(folder) {
			documents, err = r.build(folder)
		} else {
			documents, err = r.readFiles([]string{filepath.Join(folder, "*.yaml"), filepath.Join(folder, "*.yml"), filepath.Join(folder, "*.json")})
		}
		if err != nil {
			return nil, err
		}
		all = append(all, documents...)
	}
	return all, nil
}

// build builds a kustomization.
func (r *reader) build(folder string) ([]document, error) {
	if r.kustomizations == nil {
		r.kustomizations = map[string]*kustomization{}
	}
	k := r.kustomizations[folder]
	if k == nil {
		k = &kustomization{folder: folder, scratch: r.scratch}
		r.kustomizations[folder] = k
	}
	documents, err := k.build()
	r.failed = r.failed || err != nil
	return documents, err
}

// readFiles reads the files that match patterns, except the files of a kustomization.
func (r *reader) readFiles(patterns []string) (all []document, err error) {
	r.patterns = append(r.patterns, patterns...)
	for _, pattern := range patterns {
		folder, names := filepath.Split(pattern)
		entries, err := os.ReadDir(filepath.Clean(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			file := filepath.Join(folder, entry.Name())
			if ok, err := filepath.Match(names, entry.Name()); err != nil {
				return nil, err
			} else if !ok || r.isBuilt(file) {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			documents, err := split(file, content)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, documents...)
		}
	}
	return all, nil
}

// isBuilt reports whether a file is part of a kustomization that can be built.
func (r *reader) isBuilt(file string) bool {
	path, err := filepath.Abs(file)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return false
	}
	for _, k := range r.kustomizations {
		if _, ok := k.files[path]; ok && k.documents != nil {
			return true
		}
	}
	return false
}

// split splits a file into its documents, and a sequence of JSON values into the values.
func split(file string, content []byte) (all []document, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		values := manifest.SplitJSON(text)
		if values == nil {
			values = [][]byte{text}
		}
		for _, value := range values {
			all = append(all, document{file, value})
		}
	}
}

// dependsOn reports whether the manifests depend on a file. If a kustomization could not be built, they may depend on
// any manifest. dependsOn may be called concurrently with read.
func (r *reader) dependsOn(path string) bool {
	if !slices.Contains([]string{".yaml", ".yml", ".json", ""}, filepath.Ext(path)) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	resolved := resolve(path)
	for _, k := range r.kustomizations {
		if _, ok := k.files[resolved]; ok {
			return true
		}
	}
	return r.failed && filepath.Ext(path) != "" || slices.ContainsFunc(r.patterns, func(pattern string) bool {
		folder, names := filepath.Split(pattern)
		matched, err := filepath.Match(names, filepath.Base(path))
		return err == nil && matched && resolve(folder) == resolve(filepath.Dir(path))
	})
}

// resolve returns an absolute path without symbolic links, if there is such a file.
func resolve(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		return resolved
	}
	return abs
}
