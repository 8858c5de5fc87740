package dev

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// document is an object of a manifest.
type document struct {
	file    string // that it is from
	content []byte // in YAML
}

// kustomization is a folder that kustomize builds.
type kustomization struct {
	folder    string
	scratch   string            // a folder for the overlay, which is built in its place
	files     map[string][]byte // that the last build has read, by absolute path
	documents []document        // of the last build, or nil if it has failed
}

// isKustomization reports whether a folder has a kustomization file.
func isKustomization(folder string) bool {
	return slices.ContainsFunc(konfig.RecognizedKustomizationFileNames(), func(name string) bool {
		info, err := os.Stat(filepath.Join(folder, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// build builds the kustomization if any file that it reads has changed.
func (k *kustomization) build() ([]document, error) {
	if k.documents != nil && k.isCurrent() {
		return k.documents, nil
	}
	k.documents = nil
	overlay, err := k.overlay()
	if err != nil {
		return nil, err
	}
	disk := &recorder{FileSystem: filesys.MakeFsOnDisk(), files: map[string][]byte{}}
	defer func() {
		maps.DeleteFunc(disk.files, func(path string, _ []byte) bool { return filepath.Dir(path) == overlay })
		k.files = disk.files
	}()
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = kustomize.LoadRestrictionsNone // as projects that share files between folders need
	built, err := krusty.MakeKustomizer(options).Run(disk, overlay)
	if err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w", k.folder, err)
	}
	documents := []document{}
	for _, resource := range built.Resources() {
		d := document{file: k.folder}
		origin, err := resource.GetOrigin()
		if err == nil && origin != nil && origin.Path != "" && origin.Repo == "" {
			d.file = relativePath(filepath.Join(overlay, origin.Path))
		}
		if err := resource.SetOrigin(nil); err != nil {
			return nil, err
		}
		if d.content, err = resource.AsYAML(); err != nil {
			return nil, err
		}
		documents = append(documents, d)
	}
	k.documents = documents
	return documents, nil
}

// isCurrent reports whether the files of the last build are unchanged.
func (k *kustomization) isCurrent() bool {
	for path, before := range k.files {
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
			return false
		}
	}
	return true
}

// overlay writes a kustomization that contains this one and annotates objects with their files. It returns the folder.
func (k *kustomization) overlay() (string, error) {
	scratch, err := filepath.EvalSymlinks(k.scratch)
	if err != nil {
		return "", err
	}
	folder, err := filepath.Abs(k.folder)
	if err == nil {
		folder, err = filepath.EvalSymlinks(folder)
	}
	if err != nil {
		return "", err
	}
	base, err := filepath.Rel(scratch, folder)
	if err != nil {
		return "", err
	}
	content := fmt.Sprintf("resources: [%q]\nbuildMetadata: [originAnnotations]\n", filepath.ToSlash(base))
	return scratch, os.WriteFile(filepath.Join(scratch, konfig.DefaultKustomizationFileName()), []byte(content), 0o600)
}

// relativePath returns a path below the current folder as a relative path, and other paths unchanged.
func relativePath(path string) string {
	wd, err := os.Getwd()
	if err == nil {
		wd, err = filepath.EvalSymlinks(wd)
	}
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// recorder is a file system that records the files that are read.
type recorder struct {
	filesys.FileSystem
	files map[string][]byte
}

// ReadFile implements filesys.FileSystem.
func (r *recorder) ReadFile(path string) ([]byte, error) {
	content, err := r.FileSystem.ReadFile(path)
	if abs, absErr := filepath.Abs(path); err == nil && absErr == nil {
		r.files[abs] = content
	}
	return content, err
}
