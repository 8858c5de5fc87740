package controlplane_test

import (
	"bytes"
	"context"
	"flag"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"flyball.dev/controlplane"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// errorLog collects the errors that are logged.
type errorLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *errorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns the logged errors since the last call.
func (l *errorLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// logErrors collects the errors that are logged by klog during a test.
func logErrors(t *testing.T) *errorLog { return logFrom(t, "ERROR") }

// logFrom collects what klog logs of a severity and of higher ones during a test.
func logFrom(t *testing.T, severity string) *errorLog {
	t.Helper()
	l := &errorLog{}
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for _, f := range []string{"logtostderr", "alsologtostderr"} {
		if err := flags.Set(f, "false"); err != nil {
			t.Fatal(err)
		}
	}
	if err := flags.Set("stderrthreshold", "FATAL"); err != nil {
		t.Fatal(err)
	}
	klog.SetOutput(discarded{})
	klog.SetOutputBySeverity(severity, l)
	return l
}

type discarded struct{}

func (discarded) Write(p []byte) (int, error) { return len(p), nil }

// counted is a storage that calls a function at one of its calls.
type counted struct {
	*memory.Store
	calls atomic.Int64
	at    int64
	do    func()
}

func (c *counted) count() {
	if c.calls.Add(1) == c.at {
		c.do()
	}
}

func (c *counted) Get(ctx context.Context, key string) (*storage.Record, error) {
	c.count()
	return c.Store.Get(ctx, key)
}

func (c *counted) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	c.count()
	return c.Store.Range(ctx, q)
}

func (c *counted) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	c.count()
	return c.Store.Put(ctx, w)
}

func (c *counted) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	c.count()
	return c.Store.Watch(ctx, path, after)
}

// TestStopLogsNoErrors: a control plane that ends, at any moment of its start or later, logs no errors.
func TestStopLogsNoErrors(t *testing.T) {
	log := logErrors(t)
	// run ends a control plane at a call of its storage, or when it is ready if that does not come before.
	run := func(t *testing.T, at int64, ready func()) (calls int64) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		store := &counted{Store: memory.New(memory.Options{}), at: at, do: cancel}
		plane, err := controlplane.Start(ctx, controlplane.Options{Storage: store})
		switch {
		case err == nil:
			ready()
			if err := plane.Stop(); err != nil {
				t.Error(err)
			}
		case ctx.Err() == nil:
			t.Error(err)
		}
		if logged := log.take(); logged != "" {
			t.Errorf("a stop at call %d of the storage logs\n%s", at, strings.TrimSpace(logged))
		}
		return store.calls.Load()
	}
	var total int64
	synctest.Test(t, func(t *testing.T) {
		total = run(t, 0, func() {
			time.Sleep(time.Minute) // virtual
			synctest.Wait()
		})
	})
	const moments = 20
	for i := range int64(moments) {
		at := 1 + i*total/moments
		if i%2 == 0 {
			run(t, at, func() {})
		} else {
			synctest.Test(t, func(t *testing.T) { run(t, at, synctest.Wait) })
		}
	}
}

// TestMissingController: a controller of kube-controller-manager that is selected, and does not exist, causes a warning also if no other
// controller runs.
func TestMissingController(t *testing.T) {
	for list, want := range map[string]string{
		"none":         "",
		"attachdetach": "the controller persistentvolume-attach-detach-controller does not exist here: no volume is attached or mounted\n",
	} {
		log := logFrom(t, "WARNING")
		var o controlplane.Options
		if err := o.Controllers.Select(list); err != nil {
			t.Fatal(err)
		}
		o.WithoutControllers = true
		plane, err := controlplane.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
		if got := log.take(); !strings.HasSuffix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s logs %q, want %q", list, got, want)
		}
	}
}
