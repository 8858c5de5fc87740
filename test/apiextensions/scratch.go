package apiextensions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// results are what became of tests: nothing of one that passed or was skipped, else the failure.
type results map[string]string

// run runs the tests that match a pattern, or all if it is empty, without some.
func (s *scratch) run(pattern string, without []string) (results, error) {
	args := []string{"test", "-json", "-vet=off", "-timeout=8m", "-run=" + pattern}
	if len(without) > 0 {
		args = append(args, "-skip=^("+strings.Join(without, "|")+")$")
	}
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	r := results{}
	return r, r.add(out)
}

// add adds the results in the output of go test -json: of each test without subtests that failed,
// of each that did not end, and of each package whose tests could not be built.
func (r results) add(output []byte) error {
	type event struct{ Action, Package, ImportPath, Test, Output string }
	texts, parents, running := map[string]*strings.Builder{}, map[string]bool{}, map[string]bool{}
	var ended []event
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if e.Package == "" {
			e.Package, _, _ = strings.Cut(e.ImportPath, " ")
		}
		id := testID(e.Package, e.Test)
		if texts[id] == nil {
			texts[id] = &strings.Builder{}
		}
		switch e.Action {
		case "output", "build-output":
			texts[id].WriteString(e.Output)
		case "run":
			running[id] = true
		case "pass", "fail", "skip":
			delete(running, id)
			ended = append(ended, e)
			if i := strings.LastIndex(e.Test, "/"); i > 0 && e.Action == "fail" {
				parents[testID(e.Package, e.Test[:i])] = true
			}
		}
	}
	for id := range running {
		r[id] = "ended the process\n" + tail(texts[id].String())
	}
	for _, e := range ended {
		id := testID(e.Package, e.Test)
		switch {
		case e.Test == "" && (e.Action != "fail" || strings.Contains("\n"+texts[id].String(), "\nFAIL\n")):
			// Its tests say why.
		case e.Action == "fail" && !parents[id]:
			r[id] = "failed\n" + tail(texts[id].String())
		default:
			r[id] = ""
		}
	}
	return nil
}

// testID is how failing.txt names a test: by the folder below test/integration, if any, and its
// name.
func testID(importPath, test string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(importPath, folder), "/")
	return strings.TrimSpace(name + " " + strings.ReplaceAll(test, " ", "_"))
}

func tail(s string) string {
	const most = 3000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}
