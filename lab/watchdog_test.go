package lab

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	_ "flyball.dev/internal/orphans"
)

// outsiders are operators that keep their bubble from ever being quiet, with what the lab says about them.
var outsiders = map[string]struct {
	run  func() error
	want []string
}{
	"socket": {func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 1))
		return err
	}, []string{"waits for something outside of its bubble", "goroutine in flyball.dev/lab.init.func", "(IO wait), started by "}},
	"pipe": {func() error {
		r, _, err := os.Pipe()
		if err != nil {
			return err
		}
		_, err = r.Read(make([]byte, 1))
		return err
	}, []string{"waits for something outside of its bubble", "goroutine in flyball.dev/lab.init.func", "(IO wait), started by "}},
	"channel": {func() error { return <-foreign }, []string{"waits for something outside of its bubble", "goroutine in flyball.dev/lab.init.func", "(chan receive), started by "}},
	"loop":    {spin, []string{"the operator spins", "goroutine in flyball.dev/lab.spin, line "}},
	"mutex":   {func() error { return newGuarded().add(true) }, atMutex},
	"rwmutex": {func() error { return newGuarded().add(false) }, atMutex},
}

var atMutex = []string{"the operator waits for a mutex", "goroutine in flyball.dev/lab.(*guarded).add, line ",
	"The holder is likely a goroutine in flyball.dev/lab.(*guarded).keep, line "}

// foreign is a channel of no bubble.
var foreign = make(chan error)

// turns are the turns of spin.
var turns atomic.Int64

// spin never waits.
func spin() error {
	for {
		turns.Add(1)
	}
}

// guarded has mutexes that a goroutine never unlocks, because it waits for something else.
type guarded struct {
	mu     sync.Mutex
	rw     sync.RWMutex
	locked chan struct{}
	never  chan error
}

func newGuarded() *guarded { return &guarded{locked: make(chan struct{}), never: make(chan error)} }

func (g *guarded) keep() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rw.Lock()
	defer g.rw.Unlock()
	close(g.locked)
	return <-g.never
}

func (g *guarded) add(exclusive bool) error {
	go func() { _ = g.keep() }()
	<-g.locked
	if exclusive {
		g.mu.Lock()
		defer g.mu.Unlock()
		return nil
	}
	g.rw.RLock()
	defer g.rw.RUnlock()
	return nil
}

const outsider = "FLYBALL_LAB_OUTSIDER"

// TestOutside runs operators that wait for something outside of their bubble, for a mutex or for nothing, each in a process of its own: the
// process ends, and names the goroutine.
func TestOutside(t *testing.T) {
	if name := os.Getenv(outsider); name != "" {
		stuckAfter = 2 * time.Second
		_, _ = Find(t, Operator{Start: func(cfg *rest.Config) (manager.Manager, error) {
			mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
			if err != nil {
				return nil, err
			}
			return mgr, mgr.Add(manager.RunnableFunc(func(context.Context) error { return outsiders[name].run() }))
		}}, Scenario{Controllers: []string{}})
		return
	}
	t.Parallel()
	var children sync.WaitGroup
	defer children.Wait()
	for name, o := range outsiders {
		children.Go(func() {
			out, code := inChild(t, "", "^TestOutside$", outsider+"="+name)
			if code != 2 {
				t.Errorf("%s: exit code %d, want 2", name, code)
			}
			for _, want := range append(o.want, stuckPrefix) {
				if !strings.Contains(out, want) {
					t.Errorf("%s: the output lacks %q:\n%.3000s", name, want, out)
				}
			}
		})
	}
}

// inChild runs a test in a process of its own, and returns the output and the exit code.
func inChild(t *testing.T, folder, test, variable string) (out string, code int) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run="+test, "-test.v")
	cmd.Dir, cmd.Env, cmd.WaitDelay = folder, append(os.Environ(), variable), time.Second
	content, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Errorf("%s: %v", variable, err)
		return string(content), -1
	}
	return string(content), cmd.ProcessState.ExitCode()
}

// TestStuckLater explores an operator that spins after an error. The next process names the schedule, and calls it no panic of the operator.
func TestStuckLater(t *testing.T) {
	const mode = "FLYBALL_LAB_STUCK"
	if os.Getenv(mode) != "" {
		stuckAfter = 2 * time.Second
		Explore(t, copier(func(error) { panic(spin()) }), copied(ServerError))
		return
	}
	t.Parallel()
	folder := t.TempDir()
	for _, step := range []struct {
		name string
		code int
		want []string
	}{
		{"fresh", 2, []string{"panic: " + stuckPrefix + "the operator spins"}},
		{"again", 1, []string{"lab: stuck: the test process ended, because the operator spins, and time stands still: a goroutine in flyball.dev/lab.spin",
			"testdata/lab/TestStuckLater/stuck-"}},
	} {
		out, code := inChild(t, folder, "^TestStuckLater$", mode+"="+step.name)
		if code != step.code {
			t.Errorf("%s: exit code %d, want %d", step.name, code, step.code)
		}
		for _, want := range step.want {
			if !strings.Contains(out, want) {
				t.Fatalf("%s: the output lacks %q:\n%.3000s", step.name, want, out)
			}
		}
	}
}

// TestStuck tells why a bubble is never quiet from dumps of its goroutines.
func TestStuck(t *testing.T) {
	const (
		root    = "goroutine 1 [synctest.Run, synctest bubble 7]:\nmain.main()\n\tmain.go:1 +0x1"
		idle    = "goroutine 2 [select (durable), synctest bubble 7]:\nexample.com/shop.(*store).watch(0xc0001, 0x2)\n\tstore.go:20 +0x1\ncreated by example.com/shop.start in goroutine 1\n\tshop.go:3 +0x1"
		other   = "goroutine 3 [running, synctest bubble 6]:\nexample.com/shop.spin(...)\n\tshop.go:9 +0x1"
		spins   = "goroutine 4 [runnable, 1 minutes, synctest bubble 7]:\nruntime.asyncPreempt()\n\tpreempt.s:1 +0x1\nexample.com/shop.loop({0x1, 0x2})\n\tloop.go:30 +0x1\ncreated by example.com/shop.start in goroutine 1\n\tshop.go:3 +0x1"
		reads   = "goroutine 5 [IO wait, synctest bubble 7]:\ninternal/poll.runtime_pollWait(0x1, 0x2)\n\tnetpoll.go:1 +0x1\nnet.(*conn).Read(0xc1)\n\tnet.go:1 +0x1\nexample.com/shop.dial(0x1)\n\tdial.go:40 +0x1"
		locks   = "goroutine 6 [sync.Mutex.Lock, synctest bubble 7]:\ninternal/sync.runtime_SemacquireMutex(0x1)\n\tsema.go:1 +0x1\nsync.(*Mutex).Lock(...)\n\tmutex.go:1 +0x1\nexample.com/shop.(*store).add(0xc0001, 0x9)\n\tstore.go:50 +0x1"
		same    = "goroutine 7 [sleep (durable), synctest bubble 7]:\ntime.Sleep(0x1)\n\ttime.go:1 +0x1\nexample.com/shop.(*store).sync(0xc0001)\n\tstore.go:60 +0x1"
		another = "goroutine 8 [sleep (durable), synctest bubble 7]:\ntime.Sleep(0x1)\n\ttime.go:1 +0x1\nexample.com/shop.(*store).sync(0xc0002)\n\tstore.go:70 +0x1"
		writes  = "goroutine 9 [sync.RWMutex.Lock, synctest bubble 7]:\nsync.(*RWMutex).Lock(0x1)\n\tmutex.go:1 +0x1\nexample.com/shop.(*store).add(0xc0003, 0x9)\n\tstore.go:51 +0x1"
	)
	for _, tc := range []struct {
		name  string
		dump  []string
		want  []string
		wrong string
	}{
		{"spins", []string{root, idle, other, spins, locks},
			[]string{"the operator spins", ": a goroutine in example.com/shop.loop, line 30 (runnable), started by example.com/shop.start.\n", "(*store).add"}, "watch"},
		{"reads", []string{root, idle, reads, locks}, []string{"waits for something outside", "a goroutine in example.com/shop.dial, line 40 (IO wait).\n"}, "watch"},
		{"same receiver", []string{root, idle, locks, another, same},
			[]string{"waits for a mutex", "a goroutine in example.com/shop.(*store).add, line 50 (sync.Mutex.Lock)",
				"The holder is likely a goroutine in example.com/shop.(*store).sync, line 60 (sleep); a goroutine in example.com/shop.(*store).watch, line 20 (select)"}, "line 70"},
		{"same type", []string{root, writes, another}, []string{"The holder is likely a goroutine in example.com/shop.(*store).sync, line 70 (sleep)."}, "line 60"},
		{"nobody", []string{root, locks, writes}, []string{"line 50", "line 51", "the goroutines wait for each other"}, "likely a"},
	} {
		got := stuckBecause(parseGoroutines(strings.Join(tc.dump, "\n\n"), "7"))
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: it lacks %q:\n%s", tc.name, want, got)
			}
		}
		if strings.Contains(got, tc.wrong) {
			t.Errorf("%s: it has %q:\n%s", tc.name, tc.wrong, got)
		}
	}
}

// TestCrashes tells what has ended a process from the report of the Go runtime.
func TestCrashes(t *testing.T) {
	for _, tc := range []struct{ report, check, message string }{
		{"panic: oh\n\ngoroutine 7 [running]:\n", panicked, "panic in a goroutine of the operator, which ended the test process: oh"},
		{"panic: " + stuckPrefix + "the operator spins, and time stands still: a.\n\tA loop must\n", stuckRun, "the test process ended, because the operator spins, and time stands still: a."},
		{"fatal error: concurrent map writes\n\ngoroutine 7", panicked, "fatal error of the Go runtime, which ended the test process: concurrent map writes"},
		{"panic: test timed out after 1s\n\trunning tests:\n", "", ""},
		{"", "", ""},
	} {
		f := crashOf(tc.report)
		if f == nil {
			f = &Finding{}
		}
		if f.Check != tc.check || f.Message != tc.message {
			t.Errorf("%q: %s: %q, want %s: %q", tc.report, f.Check, f.Message, tc.check, tc.message)
		}
	}
}

// TestEnded: the journal of a process that somebody has ended is no finding, and a line says so.
func TestEnded(t *testing.T) {
	t.Chdir(t.TempDir())
	path, _ := write(t, filepath.Join("testdata", "lab", t.Name()), saved{Schedule: twoSecrets})
	e := &explorer{name: t.Name()}
	journal := filepath.Join(e.directory(), journalName)
	stderr, err := os.Create("stderr")
	if err == nil {
		err = os.Rename(path, journal)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func(before *os.File) { os.Stderr = before }(os.Stderr)
	os.Stderr = stderr
	f, err := e.unfinished()
	if f != nil || err != nil {
		t.Errorf("%+v, %v", f, err)
	}
	if out, err := os.ReadFile("stderr"); err != nil || string(out) != "lab: ignoring "+journal+": somebody has ended the last test process, or it took too long\n" {
		t.Errorf("%v: the output is %q", err, out)
	}
}

// TestLeft names the goroutines that an operator leaves, in the message and in the story.
func TestLeft(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(context.Context) error
		want []string
	}{
		{"goroutine", func(context.Context) error { go linger(); return nil },
			[]string{"goroutine: left by the operator: a goroutine in flyball.dev/lab.linger, line ", "(chan receive), started by flyball.dev/lab.TestLeft.func"}},
		{"runnable", func(context.Context) error { linger(); return nil },
			[]string{"operator: the manager of operator has ended with an error: ", "a goroutine in flyball.dev/lab.linger, line "}},
	} {
		report, err := Find(t, Operator{Start: func(cfg *rest.Config) (manager.Manager, error) {
			mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
			if err != nil {
				return nil, err
			}
			return mgr, mgr.Add(manager.RunnableFunc(tc.run))
		}}, Scenario{Controllers: []string{}})
		if err != nil || len(report.Findings) != 1 {
			t.Fatalf("%s: %+v, %v", tc.name, report, err)
		}
		f := report.Findings[0]
		for _, want := range tc.want {
			if message := f.Check + ": " + f.Message; !strings.Contains(message, want) {
				t.Errorf("%s: %s\nwant %q", tc.name, message, want)
			}
		}
		for _, want := range []string{"the operator starts\n", "✗ " + f.Check, "chan receive (durable), synctest bubble", "lab.linger("} {
			if !strings.Contains(f.Story, want) {
				t.Errorf("%s: the story lacks %q:\n%s", tc.name, want, f.Story)
			}
		}
	}
}

// linger waits for ever.
func linger() { <-make(chan struct{}) }
