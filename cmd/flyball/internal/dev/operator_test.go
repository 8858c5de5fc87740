//go:build linux

package dev

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fifoVariable is the environment variable that makes TestOperatorEndsWithItsParent the parent.
const fifoVariable = "FLYBALL_TEST_FIFO"

// TestOperatorEndsWithItsParent kills a process that has started an operator, which keeps a named
// pipe open. When the pipe ends, the operator has ended.
func TestOperatorEndsWithItsParent(t *testing.T) {
	if fifo := os.Getenv(fifoVariable); fifo != "" {
		op, err := startOperator("sh", []string{"-c", `exec sleep 1000 3>"$0"`, fifo}, nil, newOutput(os.Stdout), nil)
		if err != nil {
			t.Fatal(err)
		}
		<-op.done
		return
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestOperatorEndsWithItsParent$")
	parent.Env = append(os.Environ(), fifoVariable+"="+fifo)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(fifo) // when the operator has opened it
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()                           // it was killed
	if _, err := io.ReadAll(file); err != nil { // it returns when the operator has ended
		t.Error(err)
	}
}

// TestClosedOutput: if nobody reads the output any more, the run is ended, and the operator does not
// notice.
func TestClosedOutput(t *testing.T) {
	read, write := io.Pipe()
	out := newOutput(write)
	closed := 0
	out.closed = func() { closed++ }
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	w := &lineWriter{output: out, prefix: fromOperator}
	if n, err := w.Write([]byte("a line\n")); n != len("a line\n") || err != nil || closed != 1 {
		t.Errorf("%d bytes, %v, closed %d times", n, err, closed)
	}
}

// TestLongLines: a line that does not end is not kept in memory for ever.
func TestLongLines(t *testing.T) {
	var out bytes.Buffer
	w := &lineWriter{output: newOutput(&out), prefix: fromOperator}
	chunk := bytes.Repeat([]byte("x"), 1000)
	for range 1000 {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
		if len(w.rest) > maxLine {
			t.Fatalf("%d bytes are kept", len(w.rest))
		}
	}
	w.flush()
	if got := strings.Count(out.String(), "x"); got != 1000*1000 {
		t.Errorf("%d bytes are written", got)
	}
}
