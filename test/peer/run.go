package peer

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
	"path/filepath"
	"slices"
	"strings"

	"flyball.dev/internal/gotest"
)

const report = "peer-report.json"

// newImporter compiles the imports of the suites and returns an importer.
func (s *scratch) newImporter(suites []*suite) (types.Importer, error) {
	var patterns []string
	for _, u := range suites {
		paths, err := u.imports()
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, paths...)
	}
	slices.Sort(patterns)
	cmd := s.command(append([]string{"list", "-e", "-export", "-deps", "-json=ImportPath,Export"}, slices.Compact(patterns)...))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
				if exports[path] == "" {
					return nil, fmt.Errorf("no package %s", path)
				}
				return os.Open(exports[path])
			}), nil
		case err != nil:
			return nil, err
		}
		exports[p.ImportPath] = p.Export
	}
}

// run runs the suites and returns the results of their specs.
func (s *scratch) run(suites []*suite) (gotest.Results, error) {
	all := gotest.Results{}
	for _, ginkgo := range []bool{true, false} {
		var folders []string
		for _, u := range suites {
			if u.runs() && u.ginkgo == ginkgo {
				folders = append(folders, "./ctrl/"+u.path)
			}
		}
		if len(folders) == 0 {
			continue
		}
		args := append([]string{"test", "-json", "-vet=off", "-timeout=5m", "-ldflags=-s -w"}, folders...)
		if ginkgo {
			args = append(args, "-args", "-ginkgo.timeout=4m", "-ginkgo.seed=1", "-ginkgo.json-report="+report)
		}
		if err := all.Run(s.command(args), testID); err != nil {
			return nil, err
		}
	}
	for _, u := range suites {
		if !u.ginkgo || !u.runs() {
			continue
		}
		if err := addSpecs(all, u); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// command returns a go command in the copy.
func (s *scratch) command(args []string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	// As with controller-runtime's envtest, nothing deletes namespaces and dependents.
	cmd.Dir, cmd.Env = s.dir, append(gotest.ScratchEnvironment(), "FLYBALL_CONTROLLERS=none")
	return cmd
}

func testID(importPath, test string) string {
	return strings.TrimSpace(strings.TrimPrefix(importPath, ownModule+"/ctrl/") + " " + test)
}

// addSpecs adds the results in a suite's report.
func addSpecs(r gotest.Results, u *suite) error {
	content, err := os.ReadFile(filepath.Join(u.dir, report))
	if errors.Is(err, fs.ErrNotExist) {
		if _, failed := r[u.path]; !failed {
			r[u.path] = "the suite ended without a report"
		}
		return nil
	}
	if err != nil {
		return err
	}
	suiteTests, err := u.suiteTests()
	if err != nil {
		return err
	}
	return r.AddGinkgo(content, u.path, suiteTests)
}
