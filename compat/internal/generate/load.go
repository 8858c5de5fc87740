package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	ownModule  = "flyball.dev/ctrl"
	peerModule = "sigs.k8s.io/controller-runtime"
	// fileName is the name of the generated file of a package.
	fileName = "zz_generated.flyball.go"
)

// pkg is a package to be written.
type pkg struct {
	*types.Package
	dir string // below the root of this module
}

// load returns the importable packages of flyball.dev/ctrl, from the export data of the compiler.
func load(root string) ([]pkg, error) {
	command := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Name,Export", ownModule+"/...")
	command.Dir, command.Stderr = root, os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var paths []string
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Name, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if importable(p.ImportPath) && p.Name != "main" {
			paths = append(paths, p.ImportPath)
		}
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var packages []pkg
	for _, p := range paths {
		loaded, err := imports.Import(p)
		if err != nil {
			return nil, err
		}
		packages = append(packages, pkg{loaded, strings.TrimPrefix(strings.TrimPrefix(peerPath(p), peerModule), "/")})
	}
	return packages, nil
}

// importable reports whether a package is one of flyball.dev/ctrl that programs may import and that controller-runtime has
// as well. Package console, and console/always, have no counterpart: programs import flyball.dev/ctrl/console.
func importable(importPath string) bool {
	p, ok := strings.CutPrefix(importPath, ownModule)
	return ok && p != "/console" && p != "/console/always" && !slices.Contains(strings.Split(p, "/"), "internal")
}

// peerPath returns the import path that a package of flyball.dev/ctrl has in controller-runtime.
func peerPath(importPath string) string {
	if importPath == ownModule {
		return peerModule
	}
	return path.Join(peerModule, "pkg", strings.TrimPrefix(importPath, ownModule))
}

// generated returns the generated files that exist, by their names below the root.
func generated(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != fileName {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil {
			files[name], err = os.ReadFile(path)
		}
		return err
	})
	return files, err
}
