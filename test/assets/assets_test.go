package assets

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flyball.dev/internal/gotest"
	_ "flyball.dev/internal/orphans"
)

var (
	update = flag.Bool("update", false, "rewrite failing.txt")
	only   = flag.String("only", "", "run only these packages, separated by commas")
	dir    = flag.String("assets", "", "the directory with the programs to run on; by default our stand-ins")
)

const (
	list  = "failing.txt"
	peers = "sigs.k8s.io/controller-runtime/pkg/"
)

func TestAssets(t *testing.T) {
	known, err := gotest.ReadList(list)
	if err != nil {
		t.Fatal(err)
	}
	programs := *dir
	if programs == "" {
		programs = standIns(t)
	}
	packages := onEnvtest(t)
	if *only != "" {
		chosen := strings.Split(*only, ",")
		packages = slices.DeleteFunc(packages, func(p suite) bool { return !slices.Contains(chosen, p.name()) })
	} else if len(packages) < 15 {
		t.Fatalf("only %d packages on envtest were found", len(packages))
	}
	ran := gotest.Results{}
	for _, p := range packages {
		before := len(ran)
		if err := p.run(t, programs, ran); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d specs", p.name(), len(ran)-before)
	}
	t.Logf("%d specs, of which %d fail", len(ran), ran.Failed())
	if *only == "" && len(ran) < 1300 {
		t.Errorf("only %d specs have run", len(ran))
	}
	current, differences := known.Compare(ran, func(string, string) bool { return *only != "" })
	switch {
	case *dir != "":
		for spec, failure := range ran {
			if failure != "" {
				t.Logf("fails: %s\n%s", spec, failure)
			}
		}
	case *update:
		if err := current.Write(list); err != nil {
			t.Fatal(err)
		}
	default:
		for _, difference := range differences {
			t.Error(difference)
		}
	}
}

// standIns builds flyball and returns the directory that it prints.
func standIns(t testing.TB) string {
	t.Helper()
	program, into := filepath.Join(t.TempDir(), "flyball"), filepath.Join(t.TempDir(), "assets")
	if out, err := exec.Command("go", "build", "-tags=kustomize_disable_go_plugin_support", "-ldflags=-s -w", "-o", program, "flyball.dev/cmd/flyball").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program, "assets", "--dir", into).Output()
	if err != nil || string(out) != into+"\n" {
		t.Fatalf("flyball assets: %q, %v", out, err)
	}
	return into
}

// suite is the tests of one package.
type suite struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports []string
}

func (p suite) name() string { return strings.TrimPrefix(p.ImportPath, peers) }

func (p suite) imports(part string) bool {
	return slices.ContainsFunc(slices.Concat(p.TestImports, p.XTestImports), func(path string) bool { return strings.Contains(path, part) })
}

// onEnvtest returns envtest and the packages of controller-runtime with tests that start envtest.
func onEnvtest(t *testing.T) (found []suite) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,TestImports,XTestImports", peers+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p suite
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if p.imports("pkg/envtest") || p.imports("testing/controlplane") || p.name() == "envtest" {
			found = append(found, p)
		}
	}
}

// run runs the tests of a package and adds their results.
func (p suite) run(t *testing.T, programs string, ran gotest.Results) error {
	report := filepath.Join(t.TempDir(), "report.json")
	args := []string{"test", "-json", "-vet=off", "-count=1", "-timeout=10m", "-ldflags=-s -w", p.ImportPath}
	if p.imports("onsi/ginkgo") {
		args = append(args, "-args", "-ginkgo.seed=1", "-ginkgo.json-report="+report)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+programs)
	err := ran.Run(cmd, func(importPath, test string) string {
		return strings.TrimSpace(strings.TrimPrefix(importPath, peers) + " " + test)
	})
	if err != nil {
		return err
	}
	content, err := os.ReadFile(report)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the suite has no specs, or has ended early, which is among the results
	}
	if err != nil {
		return err
	}
	suiteTests, err := p.suiteTests()
	if err != nil {
		return err
	}
	return ran.AddGinkgo(content, p.name(), suiteTests)
}

// suiteTests returns the names of the tests that run the specs of the package.
func (p suite) suiteTests() (names []string, err error) {
	for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		content, err := os.ReadFile(filepath.Join(p.Dir, file))
		if err != nil {
			return nil, err
		}
		tests, err := gotest.SuiteTests(content)
		if err != nil {
			return nil, err
		}
		names = append(names, tests...)
	}
	return names, nil
}
