package orphans

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// starting is the environment variable of the process that TestPrograms ends.
const starting = "FLYBALL_TEST_STARTING"

// printing is the environment variable of the program that prints its mark.
const printing = "FLYBALL_TEST_PRINTING"

// programs starts one program in the process group of its parent and one in a session of its own, and becomes a third. Each
// keeps the file 3 open.
const programs = `sleep 1000 & setsid sleep 1000 & echo started >&3; exec sleep 1000`

// TestPrograms: the programs of a test, and the programs that these have started, end with the test's process, whatever its name.
func TestPrograms(t *testing.T) {
	for _, name := range []string{os.Args[0], "test"} {
		for end, signal := range map[string]os.Signal{"passed": nil, "killed": syscall.SIGKILL, "out of time": syscall.SIGQUIT} { // as go test does
			t.Run(filepath.Base(name)+" "+end, func(t *testing.T) { testPrograms(t, name, signal) })
		}
	}
}

func testPrograms(t *testing.T, name string, signal os.Signal) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	starter := exec.Command(os.Args[0], "-test.run=^TestStart$", "-test.timeout=0")
	starter.Args[0] = name
	starter.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, Variable+"=") }), starting+"=1")
	starter.ExtraFiles = []*os.File{w}
	stdin, err := starter.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewReader(r)
	if line, err := lines.ReadString('\n'); line != "started\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if signal == nil {
		stdin.Close()
	} else if err := starter.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if err := starter.Wait(); (err == nil) != (signal == nil) {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil { // the end is the end of the last program
		t.Errorf("%q, %v", rest, err)
	}
}

// TestProgram: this executable has no guard of its own as a program of a test, whatever its name. Its mark is the test's.
func TestProgram(t *testing.T) {
	if os.Getenv(printing) != "" {
		fmt.Println("mark", os.Getenv(Variable))
		return
	}
	for _, name := range []string{os.Args[0], "test"} {
		program := exec.Command(os.Args[0], "-test.run=^TestProgram$")
		program.Args[0] = name
		program.Env = append(os.Environ(), printing+"=1")
		out, err := program.Output()
		if want := "mark " + os.Getenv(Variable) + "\n"; err != nil || os.Getenv(Variable) == "" || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %q, %v, want %q", name, out, err, want)
		}
	}
}

// TestUntilNone: one scan without processes is not the end, and a process that cannot be killed costs no more than a scan each
// second.
func TestUntilNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := []bool{true, false, true, false, false}
		untilNone(func() (found bool) {
			found, results = results[0], results[1:]
			return found
		})
		if len(results) > 0 {
			t.Errorf("without the scans %v", results)
		}
		start, scans := time.Now(), 0
		untilNone(func() bool {
			scans++
			return time.Since(start) < time.Hour
		})
		if scans > 3620 {
			t.Errorf("%d scans in an hour", scans)
		}
	})
}

// TestStart is the test in the process that ends.
func TestStart(t *testing.T) {
	if os.Getenv(starting) == "" {
		t.Skip("TestPrograms runs it")
	}
	w := os.NewFile(3, "programs")
	program := exec.Command("sh", "-c", programs)
	program.ExtraFiles = []*os.File{w}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test passes
}
