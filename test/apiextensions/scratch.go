package apiextensions

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"flyball.dev/internal/gotest"
)

const (
	upstream = "k8s.io/apiextensions-apiserver"
	tests    = "test/integration"
	// replaced is the file of upstream that starts the server.
	replaced  = "fixtures/server.go"
	ownModule = "flyball.dev"
	// folder contains the tests. Its name is also the name of their field manager.
	folder = ownModule + "/scratch/integration"
)

// scratch is a module with the tests of upstream and our fixtures.
type scratch struct{ dir string }

// newScratch makes the module.
func newScratch() (*scratch, error) {
	scratchDir, err := gotest.NewScratch("apiextensions")
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: scratchDir}
	dir, err := gotest.ModuleDir(upstream)
	if err != nil {
		return nil, err
	}
	if err := s.copy(filepath.Join(dir, filepath.FromSlash(tests)), "integration", replaced); err != nil {
		return nil, err
	}
	if err := s.copy("fixtures", filepath.Join("integration", "fixtures"), ""); err != nil {
		return nil, err
	}
	own, err := gotest.ModuleDir(ownModule)
	if err != nil {
		return nil, err
	}
	// The path to flyball.dev in the go.mod of this module is relative.
	return s, gotest.CopyModFile(s.dir, "-module="+ownModule+"/scratch", "-replace="+ownModule+"="+own)
}

// copy copies a tree into a folder of the module, without one file, and rewrites import paths.
func (s *scratch) copy(from, below, except string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil || filepath.ToSlash(relative) == except {
			return err
		}
		to := filepath.Join(s.dir, below, relative)
		if entry.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		content = bytes.ReplaceAll(content, []byte(`"`+upstream+"/"+tests+"/"), []byte(`"`+folder+"/"))
		return os.WriteFile(to, content, 0o644)
	})
}

// run runs the tests that match a pattern, or all if it is empty, without some. The servers have a storage; see
// fixtures/storage.go.
func (s *scratch) run(pattern string, without []string, storage string) (gotest.Results, error) {
	args := []string{"test", "-json", "-vet=off", "-timeout=8m", "-run=" + pattern}
	if len(without) > 0 {
		args = append(args, "-skip=^("+strings.Join(without, "|")+")$")
	}
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir, cmd.Env = s.dir, append(gotest.ScratchEnvironment(), "FLYBALL_TEST_STORAGE="+storage)
	ran := gotest.Results{}
	return ran, ran.Run(cmd, testID)
}

// testID is how failing.txt names a test: by the folder below test/integration, if any, and its
// name.
func testID(importPath, test string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(importPath, folder), "/")
	return strings.TrimSpace(name + " " + strings.ReplaceAll(test, " ", "_"))
}
