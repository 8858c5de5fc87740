package shell_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flyball.dev/controllers/pods/shell"
	"flyball.dev/internal/testlevel"
)

// generator makes random command lines and inputs.
type generator struct{ *rand.Rand }

// pick returns one of some words.
func (g generator) pick(words ...string) string { return words[g.IntN(len(words))] }

// text returns random lines of few characters, so that many are equal in part.
func (g generator) text() string {
	var b strings.Builder
	for range g.IntN(12) {
		for range g.IntN(8) {
			b.WriteString(g.pick("a", "b", "B", "c", "1", "2", "10", "-3", ".5", " ", "  ", "\t", ":", "x"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// sort returns the arguments of a random sort.
func (g generator) sort() []string {
	args := []string{"sort"}
	for _, flag := range []string{"-r", "-n", "-u", "-f", "-b", "-s"} {
		if g.IntN(4) == 0 {
			args = append(args, flag)
		}
	}
	if g.IntN(3) == 0 {
		args = append(args, "-t", g.pick(":", " ", "x"))
	}
	position := func(least int) string {
		p := fmt.Sprint(1 + g.IntN(3))
		if g.IntN(3) == 0 {
			p += fmt.Sprintf(".%d", least+g.IntN(3))
		}
		return p + g.pick("", "", "", "n", "r", "b", "f", "nr")
	}
	for range g.IntN(3) {
		k := position(1)
		if g.IntN(2) == 0 {
			k += "," + position(0)
		}
		args = append(args, "-k", k)
	}
	return args
}

// grep returns the arguments of a random grep.
func (g generator) grep() []string {
	args := []string{"grep"}
	for _, flag := range []string{"-i", "-v", "-n", "-c", "-x", "-H", "-l", "-q", "-A1", "-B2", "-C1", "-m2"} {
		if g.IntN(6) == 0 {
			args = append(args, flag)
		}
	}
	pattern := g.pick("a", "[ab]", "^a", "c$", "1*0", ".", "b.", `\(a\|b\)c`, "^$", "x", "B", "a*", `1\{1,2\}`)
	if g.IntN(3) == 0 {
		args = append(args, g.pick("-E", "-F"))
	}
	for range g.IntN(2) {
		args = append(args, "-e", g.pick("1", "b", "^ "))
	}
	return append(args, "-e", pattern)
}

// find returns the arguments of a random find.
func (g generator) find() []string {
	args := []string{"find", g.pick(".", "a", "a/", "./b")}
	for _, bound := range []string{"-mindepth", "-maxdepth"} {
		if g.IntN(4) == 0 {
			args = append(args, bound, g.pick("0", "1", "2"))
		}
	}
	var expression func(depth int)
	expression = func(depth int) {
		for i := range 1 + g.IntN(2) {
			if i > 0 {
				args = append(args, strings.Fields(g.pick("-a", "-o", "-and", "-or", ""))...)
			}
			if g.IntN(4) == 0 {
				args = append(args, g.pick("!", "-not"))
			}
			if depth < 3 && g.IntN(3) == 0 {
				args = append(args, "(")
				expression(depth + 1)
				args = append(args, ")")
				continue
			}
			args = append(args, strings.Fields(g.pick("-name *.txt", "-name [ab]", "-iname A*", "-type f", "-type d", "-empty", "-prune", "-print", "-path ./a/*", "-path */b*"))...)
		}
	}
	if g.IntN(6) > 0 {
		expression(0)
	}
	return args
}

// files are the files of the tests of find, in the order in which they are made; folders end with a slash.
var files = []string{"a/", "a/b/", "a/b/x.txt", "a/A.TXT", "a/empty", "b/", "b/c/", "b/c/d/", "b/c/d/deep.txt", "top.txt"}

// host runs a program of the host.
func host(t *testing.T, dir, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}, strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// TestAgainstHost compares sort, grep and find with the programs of the host, of GNU, over random arguments and inputs.
func TestAgainstHost(t *testing.T) {
	for _, program := range []string{"sort", "grep", "find"} {
		if out, err := exec.Command(program, "--version").Output(); err != nil || !strings.Contains(string(out), "GNU") {
			t.Skipf("%s is not GNU's: %v", program, err)
		}
	}
	dir := t.TempDir()
	fs := newFS(t)
	s := shell.New(shell.Options{})
	for _, name := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		script := "mkdir -p /w/" + name
		if !strings.HasSuffix(name, "/") {
			content := strings.TrimPrefix(filepath.Base(name), "empty")
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			script = "printf '%s' '" + content + "' > /w/" + name
		} else if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if r := execute(t, s, fs, "", "sh", "-c", script); r.code != 0 {
			t.Fatalf("%s: %+v", script, r)
		}
	}
	seeds, ran := testlevel.Rounds(300, 3000), map[string]int{}
	for seed := range uint64(seeds) {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		var args []string
		stdin := ""
		switch seed % 3 {
		case 0:
			args, stdin = g.sort(), g.text()
		case 1:
			args, stdin = g.grep(), g.text()
		default:
			args = g.find()
		}
		want := host(t, dir, stdin, args...)
		got := execute(t, s, fs, stdin, append([]string{"sh", "-c", `cd /w && "$@"`, "sh"}, args...)...)
		if args[0] == "find" { // its order is the one of the folders
			want.out, got.out = sorted(want.out), sorted(got.out)
		}
		if want.out != got.out || want.code != got.code {
			t.Errorf("seed %d: %q with the input %q\nprints %q and %q with the code %d,\nwant   %q and %q with the code %d", seed, args, stdin, got.out, got.err, got.code, want.out, want.err, want.code)
		}
		if want.code == 0 && want.out != "" {
			ran[args[0]]++
		}
	}
	for _, program := range []string{"sort", "grep", "find"} {
		if ran[program] < seeds/12 {
			t.Errorf("only %d runs of %s printed something", ran[program], program)
		}
	}
}

// sorted sorts lines.
func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}
