package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/applyconfiguration"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/rbac"
	"sigs.k8s.io/controller-tools/pkg/schemapatcher"
	"sigs.k8s.io/controller-tools/pkg/webhook"
)

// invocation is the meaning of the options of controller-gen in a folder.
type invocation struct {
	dir        string   // the absolute folder, in which the go command reads the paths
	paths      []string // none stand for the package in the folder
	generators []namedGenerator
	outputs    map[string]genall.OutputRule // by the name of a generator, or "" for all others
	config     string                       // the folder for the manifests that outputs do not cover
}

// namedGenerator is a generator with its name in options. The generator's files do not depend on the folder of the
// invocation.
type namedGenerator struct {
	name string
	genall.Generator
}

// parse parses the options of controller-gen in a folder. Without a generator, they may be for override only.
func parse(dir string, options []string) (invocation, error) {
	registry, err := optionsRegistry()
	if err != nil {
		return invocation{}, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return invocation{}, err
	}
	v := invocation{dir: abs, outputs: map[string]genall.OutputRule{}}
	v.config = v.file("config")
	for _, option := range options {
		name, value, err := parseOption(registry, option)
		if err != nil {
			return invocation{}, err
		}
		switch value := value.(type) {
		case genall.Generator:
			if v.has(name) {
				return invocation{}, fmt.Errorf("multiple instances of the generator %q", name)
			}
			v.generators = append(v.generators, namedGenerator{name, v.withFiles(value)})
		case genall.OutputRule:
			generator := "" // as in output:RULE
			if parts := strings.Split(name, ":"); len(parts) == 3 {
				generator = parts[1]
			}
			v.outputs[generator] = v.withFolders(value)
		case genall.InputPaths:
			v.paths = append(v.paths, value...)
		}
	}
	if len(v.generators) > 0 {
		err = v.checkOutputs(v.outputs)
	}
	return v, err
}

// checkOutputs returns an error if outputs are for a generator that the invocation lacks.
func (v invocation) checkOutputs(outputs map[string]genall.OutputRule) error {
	for _, name := range sortedKeys(outputs) {
		if name != "" && !v.has(name) {
			return fmt.Errorf("an output is for the generator %q, which is not among the options", name)
		}
	}
	return nil
}

// has reports whether the invocation runs a generator.
func (v invocation) has(name string) bool {
	return slices.ContainsFunc(v.generators, func(g namedGenerator) bool { return g.name == name })
}

// file returns a file of the invocation's folder as a file of the current folder.
func (v invocation) file(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(v.dir, path)
	}
	return relative(path)
}

// optionalFile is file, for a path that may be absent.
func (v invocation) optionalFile(path string) string {
	if path == "" {
		return ""
	}
	return v.file(path)
}

// withFiles returns a generator with files of the current folder.
func (v invocation) withFiles(generator genall.Generator) genall.Generator {
	switch g := generator.(type) {
	case applyconfiguration.Generator:
		g.HeaderFile = v.optionalFile(g.HeaderFile)
		// With a tool version, the header of generated files names this program. Without it, the header names
		// controller-gen.
		omit := true
		g.OmitToolVersion = &omit
		return g
	case crd.Generator:
		g.HeaderFile = v.optionalFile(g.HeaderFile)
		return g
	case deepcopy.Generator:
		g.HeaderFile = v.optionalFile(g.HeaderFile)
		return g
	case rbac.Generator:
		g.HeaderFile = v.optionalFile(g.HeaderFile)
		return g
	case schemapatcher.Generator:
		g.ManifestsPath = v.optionalFile(g.ManifestsPath)
		return g
	case webhook.Generator:
		g.HeaderFile = v.optionalFile(g.HeaderFile)
		return g
	}
	return generator
}

// withFolders returns an output rule with folders of the current folder.
func (v invocation) withFolders(rule genall.OutputRule) genall.OutputRule {
	switch r := rule.(type) {
	case genall.OutputToDirectory:
		return genall.OutputToDirectory(v.file(string(r)))
	case genall.OutputArtifacts:
		r.Config = genall.OutputToDirectory(v.file(string(r.Config)))
		r.Code = genall.OutputToDirectory(v.optionalFile(string(r.Code)))
		return r
	}
	return rule
}

// output returns the output rule for a generator.
func (v invocation) output(name string) genall.OutputRule {
	for _, key := range []string{name, ""} {
		if rule, ok := v.outputs[key]; ok {
			return rule
		}
	}
	return genall.OutputArtifacts{Config: genall.OutputToDirectory(filepath.Join(v.config, name))}
}

// manifests returns the output folder for the manifests of a generator. It returns "" if the invocation lacks the
// generator or writes no files.
func (v invocation) manifests(name string) string {
	if !v.has(name) {
		return ""
	}
	dir, _ := folderOf(v.output(name), nil)
	return filepath.ToSlash(dir)
}

// readsAll reports whether the invocation reads all packages below the current folder.
func (v invocation) readsAll() bool {
	return slices.ContainsFunc(v.paths, func(path string) bool { return isFolder(path) && v.file(path) == "..." })
}

// pathsBeyond returns the paths that are not folders below the current folder.
func (v invocation) pathsBeyond() []string {
	return slices.DeleteFunc(slices.Clone(v.paths), func(path string) bool { return isFolder(path) && filepath.IsLocal(v.file(path)) })
}

// isFolder reports whether a path is a folder, and not the path of a package.
func isFolder(path string) bool { return filepath.IsAbs(path) || strings.HasPrefix(path, ".") }

// override returns the invocation with other paths and outputs, where there are others.
func (v invocation) override(by invocation) invocation {
	if len(by.paths) > 0 {
		v.dir, v.paths = by.dir, by.paths
	}
	if len(by.outputs) > 0 {
		v.outputs = maps.Clone(by.outputs)
		maps.DeleteFunc(v.outputs, func(name string, _ genall.OutputRule) bool { return name != "" && !v.has(name) })
	}
	return v
}

// merge adds the generators of another invocation, if one run has the same effect as two.
func (v *invocation) merge(other invocation) (ok bool) {
	sharesOutput := v.outputs[""] != nil || other.outputs[""] != nil
	sharesGenerator := slices.ContainsFunc(other.generators, func(g namedGenerator) bool { return v.has(g.name) })
	if v.dir != other.dir || !slices.Equal(v.paths, other.paths) || v.config != other.config || sharesOutput || sharesGenerator {
		return false
	}
	v.generators = slices.Concat(v.generators, other.generators)
	v.outputs = maps.Clone(v.outputs)
	maps.Copy(v.outputs, other.outputs)
	return true
}

// project holds the packages to generate for, and the invocation.
type project struct {
	invocation
	*genall.Runtime
	positions *token.FileSet
}

// load lists the packages.
func (v invocation) load(ctx context.Context, tags []string) (*project, error) {
	if len(v.generators) == 0 {
		return nil, fmt.Errorf("no generators are given; there are: %s", strings.Join(sortedKeys(generators), ", "))
	}
	list := make(genall.Generators, len(v.generators))
	for i := range v.generators {
		list[i] = &v.generators[i].Generator
	}
	positions := token.NewFileSet()
	config := &packages.Config{Context: ctx, Dir: v.dir, Fset: positions, BuildFlags: []string{"-tags=" + strings.Join(tags, ",")}}
	runtime, err := list.ForRootsWithConfig(config, v.paths...)
	if err != nil {
		return nil, loadError(err)
	}
	if len(runtime.Roots) == 0 {
		return nil, fmt.Errorf("no Go packages match %s", cmp.Or(strings.Join(v.paths, " "), relative(v.dir)))
	}
	p := &project{invocation: v, Runtime: runtime, positions: positions}
	return p, sourceErrors(p)
}

// loadError adds a remedy to an error of listing packages.
func loadError(err error) error {
	// go/packages wraps the output of the go command, if the command runs at all.
	message, printed, _ := strings.Cut(err.Error(), ": stderr: ")
	if strings.TrimSpace(printed) != "" {
		message = printed
	}
	return errors.New(WithHint(strings.ReplaceAll(strings.TrimSpace(message), "\n", ": ")))
}

// relative returns a path below the current folder as a relative path, and other paths unchanged.
func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
