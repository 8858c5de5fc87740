package apiextensions

import (
	"bytes"
	"fmt"
	"hash/fnv"
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
	// folder has the tests. Its name is also that of their field manager.
	folder = ownModule + "/scratch/integration"
)

// scratch is a module with the tests of upstream and our fixtures.
type scratch struct {
	dir string
	env []string
}

// newScratch makes the module. Its directory is the same in each run, so that the build cache knows
// its packages.
func newScratch() (*scratch, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	hash := fnv.New32()
	_, _ = hash.Write([]byte(here))
	s := &scratch{
		dir: filepath.Join(os.TempDir(), fmt.Sprintf("flyball-apiextensions-%08x", hash.Sum32())),
		env: append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod"),
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return nil, err
	}
	dir, err := moduleDir(upstream)
	if err != nil {
		return nil, err
	}
	if err := s.copy(filepath.Join(dir, filepath.FromSlash(tests)), "integration", replaced); err != nil {
		return nil, err
	}
	if err := s.copy("fixtures", filepath.Join("integration", "fixtures"), ""); err != nil {
		return nil, err
	}
	return s, s.copyModFile()
}

// copyModFile makes a go.mod from that of this module, with an absolute path to flyball.dev.
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
	own, err := moduleDir(ownModule)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "mod", "edit", "-module="+ownModule+"/scratch", "-replace="+ownModule+"="+own)
	cmd.Dir = s.dir
	return cmd.Run()
}

func moduleDir(path string) (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	return strings.TrimSpace(string(dir)), err
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

// run runs the tests that match a pattern, or all if it is empty, without some.
func (s *scratch) run(pattern string, without []string) (gotest.Results, error) {
	args := []string{"test", "-json", "-vet=off", "-timeout=8m", "-run=" + pattern}
	if len(without) > 0 {
		args = append(args, "-skip=^("+strings.Join(without, "|")+")$")
	}
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir, cmd.Env = s.dir, s.env
	ran := gotest.Results{}
	return ran, ran.Run(cmd, testID)
}

// testID is how failing.txt names a test: by the folder below test/integration, if any, and its
// name.
func testID(importPath, test string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(importPath, folder), "/")
	return strings.TrimSpace(name + " " + strings.ReplaceAll(test, " ", "_"))
}
