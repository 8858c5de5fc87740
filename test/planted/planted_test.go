package planted

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	_ "flyball.dev/internal/orphans"
)

var all = flag.Bool("all", false, "plant all bugs, not a part that the commit chooses")

// perCommit is the number of bugs that are planted without -all. At most nestedPerCommit of them are for tests of a module
// below test, which take minutes to link.
const (
	perCommit       = 8
	nestedPerCommit = 2
)

const divider = "\n======\n"

// bug is a planted bug.
type bug struct {
	name, pkg, test string
	module          string // the folder of the test's module in the repository, or ""
	file            string // in the repository
	old, new        string
}

// load reads the bugs.
func load(t *testing.T) []bug {
	t.Helper()
	return read(t, "bugs")
}

// read reads the files of a folder.
func read(t *testing.T, folder string) []bug {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no bugs", err)
	}
	var bugs []bug
	for _, file := range files {
		b, err := parse(file)
		if err != nil {
			t.Fatal(err)
		}
		bugs = append(bugs, b)
	}
	return bugs
}

func parse(file string) (bug, error) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return bug{}, err
	}
	b := bug{name: strings.TrimSuffix(filepath.Base(file), ".txtar")}
	for line := range strings.Lines(string(archive.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch value = strings.TrimSpace(value); key {
		case "module":
			b.module = value
		case "package":
			b.pkg = value
		case "test":
			b.test = value
		}
	}
	if b.pkg == "" || b.test == "" || len(archive.Files) != 1 {
		return bug{}, fmt.Errorf("%s needs a package, a test and one source file", file)
	}
	b.file = archive.Files[0].Name
	before, after, ok := strings.Cut(string(archive.Files[0].Data), divider)
	if !ok {
		return bug{}, fmt.Errorf("%s has no line of equals signs", file)
	}
	b.old, b.new = before, strings.TrimSuffix(after, "\n")
	return b, nil
}

// planted returns the source file with the bug.
func (b bug) planted() ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, b.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(source, []byte(b.old)); n != 1 {
		return nil, fmt.Errorf("%s has %d times:\n%s", b.file, n, b.old)
	}
	return bytes.Replace(source, []byte(b.old), []byte(b.new), 1), nil
}

// root is the folder of the repository.
var root = func() string {
	folder, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return folder
}()

// TestBugsFit: each bug still fits its source, so that none silently plants nothing.
func TestBugsFit(t *testing.T) {
	for _, b := range append(load(t), read(t, "equivalent")...) {
		if _, err := b.planted(); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

// TestPlanted: the tests catch the bugs.
func TestPlanted(t *testing.T) {
	bugs := load(t)
	some := part(bugs, commit(t))
	for _, b := range bugs {
		if *all || some[b.name] || chosen(b.name) {
			t.Run(b.name, func(t *testing.T) { b.check(t) })
		}
	}
}

// commit returns a number that the checked out commit determines, so that a run that fails can be repeated.
func commit(t *testing.T) int {
	t.Helper()
	hash, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		t.Fatal("git rev-parse:", err)
	}
	n, err := strconv.ParseInt(string(hash[:7]), 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// part returns the names of the bugs in the nth part.
func part(bugs []bug, n int) map[string]bool {
	var main, nested []string
	for _, b := range bugs {
		if b.module == "" {
			main = append(main, b.name)
		} else {
			nested = append(nested, b.name)
		}
	}
	names := map[string]bool{}
	choose := func(from []string, count int) {
		for i := range min(count, len(from)) {
			names[from[(n*count+i)%len(from)]] = true
		}
	}
	choose(nested, nestedPerCommit)
	choose(main, perCommit-len(names))
	return names
}

// TestPart: each part has its number of bugs, and each bug is in some part.
func TestPart(t *testing.T) {
	bugs := load(t)
	modules, planted := map[string]string{}, map[string]bool{}
	for _, b := range bugs {
		modules[b.name] = b.module
	}
	for n := range len(bugs) {
		some, nested := part(bugs, n), 0
		for name := range some {
			planted[name] = true
			if modules[name] != "" {
				nested++
			}
		}
		if len(some) != perCommit || nested > nestedPerCommit {
			t.Errorf("part %d has %d bugs, %d of them in nested modules", n, len(some), nested)
		}
	}
	for name := range modules {
		if !planted[name] {
			t.Errorf("%s is never planted", name)
		}
	}
}

// chosen reports whether -run names a bug.
func chosen(name string) bool {
	_, pattern, _ := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	return pattern != "" && regexp.MustCompile(pattern).MatchString(name)
}

// check fails unless an assertion of the test catches the bug.
func (b bug) check(t *testing.T) {
	t.Helper()
	source, err := b.planted()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := b.overlay(t.TempDir(), source)
	if err != nil {
		t.Fatal(err)
	}
	var pattern []string
	for part := range strings.SplitSeq(b.test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	defer b.keepFindings(t)()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-count=1", "-timeout=5m",
		"-run", strings.Join(pattern, "/"), b.pkg)
	cmd.Dir = filepath.Join(root, b.module)
	cmd.Env = append(cmd.Environ(), "FLYBALL_TEST_LEVEL=full")
	out, err := cmd.CombinedOutput()
	text := string(out)
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch test, _, _ := strings.Cut(b.test, "/"); {
	case err == nil:
		t.Errorf("%s does not catch it:\n%s\n->\n%s", b.test, b.old, b.new)
	case !failed || exit.ExitCode() != 1 || !strings.Contains(text, "--- FAIL: "+test):
		t.Errorf("%s was not run: %v\n%s", b.test, err, tail(text))
	case strings.Contains(text, "panic: "):
		t.Errorf("%s panics, and no assertion catches it:\n%s", b.test, tail(text))
	}
}

// keepFindings returns a function that removes the findings that package lab has saved since, so that no later test of the package
// replays a finding of a planted bug.
func (b bug) keepFindings(t *testing.T) (restore func()) {
	find := func() []string {
		files, err := filepath.Glob(filepath.Join(root, b.module, b.pkg, "testdata", "lab", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	before := find()
	return func() {
		for _, file := range find() {
			if !slices.Contains(before, file) {
				_ = os.Remove(file)
				_ = os.Remove(filepath.Dir(file)) // if it is empty
			}
		}
	}
}

// overlay writes the files of a build with the bug, and returns the name of the overlay.
func (b bug) overlay(folder string, source []byte) (string, error) {
	replacement := filepath.Join(folder, filepath.Base(b.file))
	content, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, b.file): replacement}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, errors.Join(os.WriteFile(replacement, source, 0o600), os.WriteFile(overlay, content, 0o600))
}

// tail returns the end of an output.
func tail(text string) string {
	const most = 3000
	return text[max(0, len(text)-most):]
}
