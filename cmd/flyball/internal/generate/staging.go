package generate

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/applyconfiguration"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/version"
)

// The module of the generators, and its version in go.mod, for programs without module information, such as tests.
const (
	toolsModule   = "sigs.k8s.io/controller-tools"
	toolsRequired = "v0.23.0"
)

// versionAnnotation is the annotation of a CRD with the version of its generator.
const versionAnnotation = "controller-gen.kubebuilder.io/version"

// staging runs generators and keeps their output in memory, or in a temporary folder, until all of them have succeeded.
type staging struct {
	project *project
	outputs map[string]*bytes.Buffer // by absolute path
	stdout  bytes.Buffer
	// applied is a temporary folder that stands for / in the output of the generator of apply configurations.
	applied string
}

func (s *staging) close() {
	if s.applied != "" {
		_ = os.RemoveAll(s.applied)
	}
}

// generate runs all generators.
func (s *staging) generate() error {
	s.outputs = map[string]*bytes.Buffer{}
	var errs []error
	for _, generator := range s.project.generators {
		if err := s.run(generator); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return diagnose(s.project, errs)
}

// run runs one generator.
func (s *staging) run(named namedGenerator) (err error) {
	generator := named.Generator
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v\n%s", named.name, p, debug.Stack())
		}
	}()
	ctx := s.project.GenerationContext
	ctx.OutputRule = &stagedRule{staging: s, rule: s.project.output(named.name)}
	// Like controller-gen, give no type checker to a generator without a filter for it.
	if _, ok := generator.(genall.NeedsTypeChecking); !ok {
		ctx.Checker = nil
	}
	if _, ok := generator.(applyconfiguration.Generator); ok {
		return s.runApply(generator, &ctx)
	}
	return generator.Generate(&ctx)
}

// runApply runs the generator of apply configurations in a temporary copy of the packages, because the generator
// ignores output rules and writes to folders relative to each package's folder.
func (s *staging) runApply(generator genall.Generator, ctx *genall.GenerationContext) error {
	if s.applied == "" {
		dir, err := os.MkdirTemp("", "flyball-generate-*")
		if err != nil {
			return err
		}
		s.applied = dir
	}
	for _, root := range ctx.Roots {
		dir := root.Dir
		if dir == "" {
			continue
		}
		root.Dir = filepath.Join(s.applied, strings.TrimPrefix(dir, filepath.VolumeName(dir)))
		defer func() { root.Dir = dir }()
	}
	return generator.Generate(ctx)
}

// files returns the generated files, compared with the existing files.
func (s *staging) files() ([]File, error) {
	contents := map[string][]byte{}
	for path, buffer := range s.outputs {
		contents[path] = withVersion(buffer.Bytes())
	}
	if s.applied != "" {
		err := filepath.WalkDir(s.applied, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			contents[strings.TrimPrefix(path, s.applied)] = content
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var files []File
	for path, content := range contents {
		file, err := compare(path, content)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// withVersion replaces the version that controller-tools writes into CRDs, which is this program's, by the version of
// controller-tools, because only that determines the output.
func withVersion(content []byte) []byte {
	written := fmt.Sprintf("\n    %s: %s\n", versionAnnotation, version.Version())
	wanted := fmt.Sprintf("\n    %s: %s\n", versionAnnotation, toolsVersion())
	return bytes.ReplaceAll(content, []byte(written), []byte(wanted))
}

// toolsVersion returns the version of controller-tools that this program contains.
func toolsVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return toolsRequired
	}
	for _, module := range info.Deps {
		if module.Path == toolsModule && module.Replace == nil {
			return module.Version
		}
	}
	return toolsRequired
}

// stagedRule is an output rule that collects the output for another rule.
type stagedRule struct {
	staging *staging
	rule    genall.OutputRule
}

// Open opens an output for writing. If it is opened twice, the later content wins.
func (r *stagedRule) Open(pkg *loader.Package, path string) (io.WriteCloser, error) {
	dir, ok := folderOf(r.rule, pkg)
	switch {
	case !ok && r.rule == genall.OutputToStdout:
		return writer{&r.staging.stdout}, nil
	case !ok && r.rule == genall.OutputToNothing:
		return writer{io.Discard}, nil
	case !ok:
		return nil, fmt.Errorf("the package %s has no folder to write %s to; choose one with output:object:dir=DIR",
			pkg.PkgPath, path)
	}
	path, err := filepath.Abs(filepath.Join(dir, path))
	if err != nil {
		return nil, err
	}
	buffer := &bytes.Buffer{}
	r.staging.outputs[path] = buffer
	return writer{buffer}, nil
}

// folderOf returns the folder that a rule writes to: the folder for the code of a package, or for manifests if the
// package is nil.
func folderOf(rule genall.OutputRule, pkg *loader.Package) (dir string, ok bool) {
	switch rule := rule.(type) {
	case genall.OutputToDirectory:
		return string(rule), true
	case genall.OutputArtifacts:
		switch {
		case pkg == nil:
			return string(rule.Config), true
		case rule.Code != "":
			return string(rule.Code), true
		case len(pkg.CompiledGoFiles) > 0:
			return filepath.Dir(pkg.CompiledGoFiles[0]), true
		}
	}
	return "", false
}

// writer is an io.WriteCloser with a Close method that does nothing.
type writer struct{ io.Writer }

// Close does nothing.
func (writer) Close() error { return nil }
