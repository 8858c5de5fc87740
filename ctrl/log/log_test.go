package log

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// use logs with all methods.
func use(l logr.Logger) {
	l.Info("plain")
	l.WithName("a").WithName("b").WithValues("k", 1).Info("derived", "x", 2)
	l.WithValues("k", 1).V(1).Info("verbose")
	l.V(9).Info("too verbose")
	l.WithCallDepth(0).Error(errors.New("no"), "failed")
	helper(l)
}

func helper(l logr.Logger) { l.WithCallDepth(1).Info("on behalf of the caller") }

// lines is a logger that keeps what it is given, with the caller of each.
func lines(out *[]string) logr.Logger {
	return funcr.New(func(prefix, args string) { *out = append(*out, prefix+" "+args) }, funcr.Options{
		LogCaller: funcr.All,
		Verbosity: 1,
	})
}

// TestDelegates checks that loggers that were derived before there was a logger
// write what the logger itself would, as do those that are derived afterwards.
func TestDelegates(t *testing.T) {
	var want, got []string
	use(lines(&want))

	root := &sink{root: newRoot(nil)}
	early := logr.New(root)
	named := early.WithName("a")
	use(early) // dropped
	root.root.set(lines(&got).GetSink())
	use(early)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = nil
	named.WithName("b").Info("x")
	if len(got) != 1 || !strings.HasPrefix(got[0], "a/b ") || !strings.Contains(got[0], "log_test.go") {
		t.Errorf("got %q", got)
	}

	var late []string
	root.root.set(lines(&late).GetSink())
	use(early)
	if len(late) != 0 {
		t.Error("a second logger took over")
	}
}

func TestWarningWithoutLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		l := logr.New(&sink{root: newRoot(&stderr)})
		l.Info("early")
		time.Sleep(warnAfter - time.Nanosecond)
		use(l)
		if stderr.Len() > 0 {
			t.Errorf("too early: %s", &stderr)
		}
		time.Sleep(time.Nanosecond)
		use(l)
		use(l.WithName("x"))
		if n := strings.Count(stderr.String(), "log.SetLogger"); n != 1 {
			t.Errorf("warned %d times: %s", n, &stderr)
		}
		// SetLogger still has an effect.
		var got []string
		l.GetSink().(*sink).root.set(lines(&got).GetSink())
		l.Info("late")
		if len(got) != 1 {
			t.Errorf("got %q", got)
		}
	})
}

func TestNilLoggerDrops(t *testing.T) {
	r := newRoot(nil)
	r.set(logr.Logger{}.GetSink())
	use(logr.New(&sink{root: r}))
}

func TestContext(t *testing.T) {
	var got []string
	ctx := IntoContext(context.Background(), lines(&got))
	FromContext(ctx, "k", "v").Info("hello")
	if len(got) != 1 || !strings.Contains(got[0], `"k"="v"`) {
		t.Errorf("got %q", got)
	}
	FromContext(context.Background(), "k", "v").Info("nowhere")
}

func TestWarnings(t *testing.T) {
	for _, dedup := range []bool{false, true} {
		var got []string
		ctx := IntoContext(context.Background(), lines(&got))
		l := NewKubeAPIWarningLogger(KubeAPIWarningLoggerOptions{Deduplicate: dedup})
		l.HandleWarningHeaderWithContext(ctx, 299, "", "deprecated")
		l.HandleWarningHeaderWithContext(ctx, 299, "", "deprecated")
		l.HandleWarningHeaderWithContext(ctx, 299, "", "")
		l.HandleWarningHeaderWithContext(ctx, 110, "", "stale")
		if want := map[bool]int{false: 2, true: 1}[dedup]; len(got) != want {
			t.Errorf("deduplicate %v: got %q", dedup, got)
		}
	}
}
