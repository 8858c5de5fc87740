package orphans

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// starting is the environment variable of the process that TestPrograms kills.
const starting = "FLYBALL_TEST_STARTING"

// programs starts one program in the process group of its parent and one in a session of its own, and becomes a third. Each
// keeps the file 3 open.
const programs = `sleep 1000 & setsid sleep 1000 & echo started >&3; exec sleep 1000`

// TestPrograms: the programs of a test, and the programs that these have started, end with the test's process.
func TestPrograms(t *testing.T) {
	for end, signal := range map[string]os.Signal{"passed": nil, "killed": syscall.SIGKILL, "out of time": syscall.SIGQUIT} { // as go test does
		t.Run(end, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			starter := exec.Command(os.Args[0], "-test.run=^TestStart$", "-test.timeout=0")
			starter.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, Variable+"=") }), starting+"="+end)
			starter.ExtraFiles = []*os.File{w}
			if err := starter.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			lines := bufio.NewReader(r)
			if line, err := lines.ReadString('\n'); line != "started\n" || err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			if signal != nil {
				if err := starter.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			if err := starter.Wait(); (err == nil) != (signal == nil) {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil { // the end is the end of the last program
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
}

// TestStart is the test in the process that ends.
func TestStart(t *testing.T) {
	end := os.Getenv(starting)
	if end == "" {
		t.Skip("TestPrograms runs it")
	}
	w := os.NewFile(3, "programs")
	program := exec.Command("sh", "-c", programs)
	program.ExtraFiles = []*os.File{w}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if end != "passed" {
		_ = program.Wait()
	}
}
