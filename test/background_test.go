package test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"flyball.dev/internal/orphans"
)

// timeout is how long a background program may take to print the expected output, or to stop.
const timeout = 5 * time.Minute

// background is a program that runs in the background of a script.
type background struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited and all its output is read
	err  error         // of Wait; read after done

	mu     sync.Mutex
	output bytes.Buffer  // from the end of the last match of expect
	more   chan struct{} // closed when there is more output
}

// Write appends output of the program.
func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.more)
	b.more = make(chan struct{})
	return b.output.Write(p)
}

// take removes the output up to the end of the first line that matches. If there is none, it
// returns a channel that is closed when there is more output.
func (b *background) take(pattern *regexp.Regexp) (match []string, more <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for lines := b.output.Bytes(); ; {
		end := bytes.IndexByte(lines, '\n')
		if end < 0 {
			return nil, b.more
		}
		match = pattern.FindStringSubmatch(string(lines[:end]))
		lines = lines[end+1:]
		if match != nil {
			b.output.Next(b.output.Len() - len(lines))
			return match, nil
		}
	}
}

// rest returns the output after the last match.
func (b *background) rest() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.output.String()
}

// runningKey is the key of the programs in the background of a script.
type runningKey struct{}

// start NAME PROGRAM [ARG...] starts a program in the background, under a name.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start name program [arg...]")
	}
	b := &background{done: make(chan struct{}), more: make(chan struct{})}
	b.cmd = exec.Command(args[1], args[2:]...)
	b.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "KUBECONFIG", "GOCACHE", "GOMODCACHE", "GOFLAGS", orphans.Variable} {
		b.cmd.Env = append(b.cmd.Env, name+"="+ts.Getenv(name))
	}
	b.cmd.Stdout, b.cmd.Stderr = b, b
	ts.Check(b.cmd.Start())
	go func() {
		b.err = b.cmd.Wait()
		close(b.done)
	}()
	ts.Defer(func() {
		_ = b.cmd.Process.Kill() // it may have ended
		<-b.done
	})
	running(ts)[args[0]] = b
}

// expect NAME REGEXP waits until the program has printed a matching line after the line of the last expect. A named group of
// the expression sets the variable of its name.
func expect(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: expect name regexp")
	}
	b := find(ts, args[0])
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	for i, text := range b.await(ts, args[0], pattern) {
		if name := pattern.SubexpNames()[i]; name != "" {
			ts.Setenv(name, text)
		}
	}
}

// await waits for a line, and returns its match.
func (b *background) await(ts *testscript.TestScript, name string, pattern *regexp.Regexp) []string {
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	for {
		match, more := b.take(pattern)
		if match != nil {
			return match
		}
		select {
		case <-more:
		case <-b.done:
			if match, _ = b.take(pattern); match == nil {
				ts.Fatalf("%s exited (%v) without %q; its output since the last match:\n%s", name, b.err, pattern, b.rest())
			}
			return match
		case <-limit.C:
			ts.Fatalf("%s has not printed %q within %v; its output since the last match:\n%s", name, pattern, timeout, b.rest())
		}
	}
}

// end is the command (terminate NAME, interrupt NAME, finish NAME) that sends a signal, if there is
// one, and checks that the program exits with code 0; with !,
// with another. Its output after the last match is then the standard output.
func end(signal os.Signal) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) != 1 {
			ts.Fatalf("usage: terminate|interrupt|finish name")
		}
		b := find(ts, args[0])
		delete(running(ts), args[0])
		if signal != nil {
			ts.Check(b.cmd.Process.Signal(signal))
		}
		select {
		case <-b.done:
		case <-time.After(timeout):
			ts.Fatalf("%s has not exited within %v; its output since the last match:\n%s", args[0], timeout, b.rest())
		}
		_, err := ts.Stdout().Write([]byte(b.rest()))
		ts.Check(err)
		if (b.err != nil) != neg {
			ts.Fatalf("%s exited with %v; its output since the last match:\n%s", args[0], b.err, b.rest())
		}
	}
}

// running returns the programs in the background of a script.
func running(ts *testscript.TestScript) map[string]*background {
	return ts.Value(runningKey{}).(map[string]*background)
}

// find returns the program of that name.
func find(ts *testscript.TestScript, name string) *background {
	b := running(ts)[name]
	if b == nil {
		ts.Fatalf("there is no program %q", name)
	}
	return b
}
