package test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a program in the background may take to print what is expected, or to stop.
const patience = 30 * time.Second

// background is a program that runs while the script goes on.
type background struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited and all it said is here
	err  error         // how it exited; read after done

	mu   sync.Mutex
	said bytes.Buffer  // what it printed, from where the last expect left off
	more chan struct{} // closed when there is more
}

// Write takes what the program prints.
func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.more)
	b.more = make(chan struct{})
	return b.said.Write(p)
}

// take removes everything up to the end of the first line that matches. If there is none, it returns what
// tells of more.
func (b *background) take(pattern *regexp.Regexp) (bool, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for lines := b.said.Bytes(); ; {
		end := bytes.IndexByte(lines, '\n')
		if end < 0 {
			return false, b.more
		}
		line := lines[:end]
		lines = lines[end+1:]
		if pattern.Match(line) {
			b.said.Next(b.said.Len() - len(lines))
			return true, nil
		}
	}
}

func (b *background) rest() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.String()
}

// runningKey is where a script keeps its programs in the background.
type runningKey struct{}

// start NAME PROGRAM [ARG...] runs a program in the background, under a name.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start name program [arg...]")
	}
	b := &background{done: make(chan struct{}), more: make(chan struct{})}
	b.cmd = exec.Command(args[1], args[2:]...)
	b.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "KUBECONFIG"} {
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

// expect NAME REGEXP waits until the program has printed a line that matches, after that of the last
// expect.
func expect(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: expect name regexp")
	}
	b := find(ts, args[0])
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for ended := b.done; ; {
		ok, more := b.take(pattern)
		if ok {
			return
		}
		select {
		case <-more:
		case <-ended:
			if ok, _ := b.take(pattern); !ok {
				ts.Fatalf("%s has ended (%v) without %q; since the last match it said:\n%s", args[0], b.err, args[1], b.rest())
			}
			return
		case <-limit.C:
			ts.Fatalf("%s has not said %q within %v; since the last match it said:\n%s", args[0], args[1], patience, b.rest())
		}
	}
}

// end is the command (terminate NAME, interrupt NAME, finish NAME) that sends a signal, if there is one,
// and checks that the program ends well; with !, that it ends badly. What it printed after the last
// expect is then the standard output.
func end(signal os.Signal) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) != 1 {
			ts.Fatalf("which program?")
		}
		b := find(ts, args[0])
		delete(running(ts), args[0])
		if signal != nil {
			ts.Check(b.cmd.Process.Signal(signal))
		}
		select {
		case <-b.done:
		case <-time.After(patience):
			ts.Fatalf("%s has not ended within %v; since the last match it said:\n%s", args[0], patience, b.rest())
		}
		_, err := ts.Stdout().Write([]byte(b.rest()))
		ts.Check(err)
		if (b.err != nil) != neg {
			ts.Fatalf("%s ended with %v after it said:\n%s", args[0], b.err, b.rest())
		}
	}
}

// running are the programs in the background of a script.
func running(ts *testscript.TestScript) map[string]*background {
	return ts.Value(runningKey{}).(map[string]*background)
}

func find(ts *testscript.TestScript, name string) *background {
	b := running(ts)[name]
	if b == nil {
		ts.Fatalf("nothing runs under the name %q", name)
	}
	return b
}
