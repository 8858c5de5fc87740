package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/progress"
)

// Project is the operator of a project, and what it needs.
type Project struct {
	// Program is the path of the operator.
	Program string
	// TempDir is the folder for temporary files of the operator, with the certificate of its webhook server where the server looks
	// by default.
	TempDir string
	// Objects are the definitions and, if the account is known, the roles.
	Objects []*unstructured.Unstructured
	// Account is the service account of the operator, as NAMESPACE/NAME, or empty for an administrator.
	Account string
	// Notes say where the objects and the account come from.
	Notes []string
}

// Build builds the operator of the project in a folder, as Run does, and reads its manifests as they are: it generates nothing, and
// writes to dir alone. If main is empty, Build finds the main package. The folder is the current one of the process meanwhile.
func Build(ctx context.Context, folder, main, dir string, progressTo io.Writer) (p *Project, err error) {
	before, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if err := os.Chdir(folder); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Chdir(before)) }()
	if main == "" {
		if main, err = mainPackage(ctx); err != nil {
			return nil, err
		}
	}
	p = &Project{Program: filepath.Join(dir, "operator"), TempDir: filepath.Join(dir, "tmp")}
	if err := os.Mkdir(p.TempDir, 0o700); err != nil {
		return nil, err
	}
	if _, err := writeCertificate(p.TempDir); err != nil {
		return nil, err
	}
	log := &buildLog{}
	stop := progress.Start(progressTo, log.String)
	err = build(ctx, main, "", p.Program, log)
	stop()
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", main, err)
	}
	return p, p.readManifests(dir)
}

// readManifests reads the manifests of the current folder.
func (p *Project) readManifests(dir string) error {
	manifests := &reader{generated: generate.Manifests(nil), scratch: dir}
	documents, line, err := manifests.read()
	if line != "" {
		p.Notes = append(p.Notes, line)
	}
	if err != nil {
		return err
	}
	all, workloads, err := decodeAll(documents)
	if err != nil {
		return err
	}
	account := accountOf(all, workloads)
	if account != nil {
		p.Account = account.String()
	}
	all, line = withRoles(all, account, manifests.source())
	if line != "" {
		p.Notes = append(p.Notes, line)
	}
	all = slices.DeleteFunc(all, func(s source) bool {
		_, isDefinition := s.object.(*apiextensionsv1.CustomResourceDefinition)
		return !isDefinition && !isRole(s)
	})
	for _, s := range all {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.object)
		if err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
		o := &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		p.Objects = append(p.Objects, o)
	}
	return nil
}
