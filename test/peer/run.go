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
)

const report = "peer-report.json"

// results are what became of specs: nothing of one that passed, else the failure.
type results map[string]string

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
func (s *scratch) run(suites []*suite) (results, error) {
	all := results{}
	for _, ginkgo := range []bool{true, false} {
		args := []string{"test", "-json", "-vet=off", "-timeout=5m", "-ldflags=-s -w"}
		for _, u := range suites {
			if u.runs() && u.ginkgo == ginkgo {
				args = append(args, "./ctrl/"+u.path)
			}
		}
		if ginkgo {
			args = append(args, "-args", "-ginkgo.timeout=4m", "-ginkgo.seed=1", "-ginkgo.json-report="+report)
		}
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = s.dir, environment()
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return nil, err
		}
		if err := all.addTests(out); err != nil {
			return nil, err
		}
	}
	for _, u := range suites {
		if !u.ginkgo || !u.runs() {
			continue
		}
		if err := all.addSpecs(u); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// addTests adds the results of go test -json: of each test without subtests that failed, and of
// each package whose binary could not be built or ended early.
func (r results) addTests(output []byte) error {
	type event struct{ Action, Package, ImportPath, Test, Output string }
	texts, parents := map[string]*strings.Builder{}, map[string]bool{}
	var ended []event
	decoder := json.NewDecoder(bytes.NewReader(output))
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if e.Package == "" {
			e.Package, _, _ = strings.Cut(e.ImportPath, " ")
			e.Package = strings.TrimSuffix(e.Package, "_test")
		}
		id := testID(e.Package, e.Test)
		if texts[id] == nil {
			texts[id] = &strings.Builder{}
		}
		switch e.Action {
		case "output", "build-output":
			texts[id].WriteString(e.Output)
		case "pass", "fail":
			ended = append(ended, e)
			if i := strings.LastIndex(e.Test, "/"); i > 0 && e.Action == "fail" {
				parents[testID(e.Package, e.Test[:i])] = true
			}
		}
	}
	for _, e := range ended {
		id := testID(e.Package, e.Test)
		switch {
		case e.Test == "" && (e.Action == "pass" || strings.Contains(texts[id].String(), "FAIL")):
			// Its tests say why.
		case e.Action == "fail" && !parents[id]:
			r[id] = "failed\n" + tail(texts[id].String())
		default:
			r[id] = ""
		}
	}
	return nil
}

func testID(importPath, test string) string {
	return strings.TrimSpace(strings.TrimPrefix(importPath, ownModule+"/ctrl/") + " " + test)
}

func tail(s string) string {
	const most = 1500
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

// addSpecs adds the results in a suite's report, and drops that of the test which ran the suite.
func (r results) addSpecs(u *suite) error {
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
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			LeafNodeLocation        struct {
				FileName   string
				LineNumber int
			}
			State   string
			Failure struct{ Message string }
		}
	}
	if err := json.Unmarshal(content, &suites); err != nil {
		return err
	}
	for id := range r {
		if test, ok := strings.CutPrefix(id, u.path+" "); ok && slices.Contains(u.suiteTests(), test) {
			delete(r, id)
		}
	}
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			at := spec.LeafNodeLocation
			id := fmt.Sprintf("%s/%s:%d %s", u.path, filepath.Base(at.FileName), at.LineNumber,
				oneLine(strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")))
			failure := ""
			switch {
			case spec.LeafNodeType != "It":
				id += spec.LeafNodeType
				failure = tail(spec.Failure.Message)
			case spec.State == "passed", spec.State == "pending", spec.State == "skipped" && spec.Failure.Message != "":
			default:
				failure = spec.State + "\n" + tail(spec.Failure.Message)
			}
			r[id] = failure
		}
	}
	return nil
}

// oneLine replaces what varies or does not fit on a line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
