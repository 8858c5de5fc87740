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

// newImporter compiles what the suites import and returns an importer of it.
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
	out, err := command(s.dir, "go", append([]string{"list", "-e", "-export", "-deps", "-json=ImportPath,Export"},
		slices.Compact(patterns)...)...)
	if err != nil {
		return nil, err
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
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = s.dir, environment()
		if err := all.Run(cmd, testID); err != nil {
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

func testID(importPath, test string) string {
	return strings.TrimSpace(strings.TrimPrefix(importPath, ownModule+"/ctrl/") + " " + test)
}

// addSpecs adds the results in a suite's report, and drops that of the test which ran the suite.
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
	for id := range r {
		if test, ok := strings.CutPrefix(id, u.path+" "); ok && slices.Contains(u.suiteTests(), test) {
			delete(r, id)
		}
	}
	return r.AddGinkgo(content, u.path)
}
