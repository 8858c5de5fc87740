package peer

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"flyball.dev/internal/gotest"
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

// newScratch makes the copy.
func newScratch() (*scratch, error) {
	own, err := gotest.ModuleDir(ownModule)
	if err != nil {
		return nil, err
	}
	s := &scratch{}
	if s.peer, err = gotest.ModuleDir(peerModule); err != nil {
		return nil, err
	}
	if s.dir, err = gotest.NewScratch("peer"); err != nil {
		return nil, err
	}
	if err := s.copyOwn(own); err != nil {
		return nil, err
	}
	// The go.mod of this module has the dependencies of flyball.dev and of the tests.
	err = gotest.CopyModFile(s.dir, "-module="+ownModule,
		"-dropreplace="+ownModule, "-droprequire="+ownModule, "-droprequire="+peerModule)
	if err != nil {
		return nil, err
	}
	for _, path := range support {
		if err := s.lay(path, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }); err != nil {
			return nil, err
		}
	}
	return s, nil
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
