package peer

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	peerModule = "sigs.k8s.io/controller-runtime"
	ownModule  = "flyball.dev"
)

// support are packages of the peer that its tests import and that are part of the tests, so they
// are laid over the copy as they are, without tests of their own.
var support = []string{
	"examples/crd/pkg",
	"pkg/internal/flock",
	"pkg/internal/testing/addr",
	"pkg/internal/testing/certs",
	"pkg/manager/internal/integration/api",
}

// scratch is a copy of our module with the peer's tests in it.
type scratch struct {
	dir  string
	peer string // folder of controller-runtime in the module cache
}

// newScratch makes the copy in dir, which it empties first.
func newScratch(dir string) (*scratch, error) {
	own, err := moduleDir(ownModule)
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: dir}
	if s.peer, err = moduleDir(peerModule); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := s.copyOwn(own); err != nil {
		return nil, err
	}
	if err := s.copyModFile(); err != nil {
		return nil, err
	}
	for _, path := range support {
		if err := s.lay(path, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func moduleDir(path string) (string, error) {
	dir, err := command(".", "go", "list", "-m", "-f", "{{.Dir}}", path)
	return strings.TrimSpace(string(dir)), err
}

// command runs a program and returns its standard output; its error has what it wrote to the other.
func command(dir string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if dir != "." {
		cmd.Env = environment()
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w\n%s", name, args[0], err, stderr.String())
	}
	return out, nil
}

// environment lets the go command complete the go.mod of the copy: a dependency is direct or not,
// by which module is the main one.
func environment() []string {
	return append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
}

// copyOwn copies the module in root without its tests, hidden folders and nested modules.
func (s *scratch) copyOwn(root string) error {
	return copyTree(root, s.dir, func(path string, entry fs.DirEntry) bool {
		if !entry.IsDir() {
			return !strings.HasSuffix(path, "_test.go") && entry.Type().IsRegular()
		}
		if path == root {
			return true
		}
		_, err := os.Stat(filepath.Join(path, "go.mod"))
		return err != nil && !strings.HasPrefix(entry.Name(), ".")
	}, nil)
}

// copyModFile makes the go.mod of this module, which has the dependencies of flyball.dev and those
// of the tests, the one of the copy.
func (s *scratch) copyModFile() error {
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o644); err != nil {
			return err
		}
	}
	_, err := command(s.dir, "go", "mod", "edit", "-module="+ownModule,
		"-dropreplace="+ownModule, "-droprequire="+ownModule, "-droprequire="+peerModule)
	return err
}

// target returns the folder of the copy that corresponds to one of the peer.
func (s *scratch) target(path string) string {
	switch below, ok := strings.CutPrefix(path, "pkg/"); {
	case path == ".":
		path = "ctrl"
	case ok:
		path = "ctrl/" + below
	}
	return filepath.Join(s.dir, filepath.FromSlash(path))
}

// lay copies a folder of the peer to its place, files that keep selects and folders below.
func (s *scratch) lay(path string, keep func(name string) bool) error {
	from := filepath.Join(s.peer, filepath.FromSlash(path))
	return copyTree(from, s.target(path), func(name string, entry fs.DirEntry) bool {
		return entry.IsDir() || keep(name)
	}, rewrite)
}

// rewrite replaces the peer's import paths in Go files.
func rewrite(name string, content []byte) []byte {
	if !strings.HasSuffix(name, ".go") {
		return content
	}
	return []byte(strings.NewReplacer(
		peerModule+"/pkg/", ownModule+"/ctrl/",
		peerModule+"/examples/", ownModule+"/examples/",
		`"`+peerModule+`"`, `"`+ownModule+`/ctrl"`,
	).Replace(string(content)))
}

// copyTree copies the files and folders of from that keep selects, all if nil, through change,
// which may be nil.
func copyTree(
	from, to string, keep func(path string, entry fs.DirEntry) bool, change func(string, []byte) []byte,
) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if keep != nil && !keep(path, entry) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		destination := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(destination, 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if change != nil {
			content = change(path, content)
		}
		return os.WriteFile(destination, content, 0o644)
	})
}
