package sandbox

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/pods/runtime"
)

func TestLogOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogBuffer(&atomic.Int64{})
		l.write(false, []byte("one\ntw"))
		time.Sleep(10 * time.Second) // virtual
		l.write(true, []byte("err\n"))
		l.write(false, []byte("o\nthree"))
		l.close()
		l.write(false, []byte("late\n"))
		at := time.Date(2000, 1, 1, 0, 0, 10, 0, time.UTC)
		for name, tt := range map[string]struct {
			o    corev1.PodLogOptions
			want string
		}{
			"all":        {corev1.PodLogOptions{}, "one\nerr\ntwo\nthree"},
			"follow":     {corev1.PodLogOptions{Follow: true}, "one\nerr\ntwo\nthree"},
			"tail":       {corev1.PodLogOptions{TailLines: new(int64(2))}, "two\nthree"},
			"no tail":    {corev1.PodLogOptions{TailLines: new(int64(0))}, ""},
			"since":      {corev1.PodLogOptions{SinceSeconds: new(int64(5))}, "err\ntwo\nthree"},
			"since time": {corev1.PodLogOptions{SinceTime: &metav1.Time{Time: at}}, "err\ntwo\nthree"},
			"timestamps": {corev1.PodLogOptions{Timestamps: true, TailLines: new(int64(2))}, "2000-01-01T00:00:10.000000000Z two\n2000-01-01T00:00:10.000000000Z three"},
			"limit":      {corev1.PodLogOptions{LimitBytes: new(int64(6))}, "one\ner"},
			"limit of 0": {corev1.PodLogOptions{LimitBytes: new(int64(0))}, ""},
			"stdout":     {corev1.PodLogOptions{Stream: new(corev1.LogStreamStdout)}, "one\ntwo\nthree"},
			"stderr":     {corev1.PodLogOptions{Stream: new(corev1.LogStreamStderr)}, "err\n"},
		} {
			var b strings.Builder
			if err := copyLog(t.Context(), l, nil, &tt.o, &b); err != nil || b.String() != tt.want {
				t.Errorf("%s: %q, %v, want %q", name, b.String(), err, tt.want)
			}
		}
	})
}

// TestFollow: a reader that follows gets each line when it is complete, until the log or its context ends.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogBuffer(&atomic.Int64{})
		r, w := io.Pipe()
		done := make(chan error, 2)
		go func() { done <- copyLog(t.Context(), l, nil, &corev1.PodLogOptions{Follow: true}, w) }()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- copyLog(ctx, l, nil, &corev1.PodLogOptions{Follow: true}, io.Discard) }()
		for i := range 3 {
			line := fmt.Sprintf("line %d\n", i)
			l.write(false, []byte(line[:4]))
			synctest.Wait()
			l.write(false, []byte(line[4:]))
			got := make([]byte, len(line))
			if _, err := io.ReadFull(r, got); err != nil || string(got) != line {
				t.Fatalf("%q, %v", got, err)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		l.close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestLogsAreBounded: a log keeps its last MiB, less when all logs are large, and returns its bytes.
func TestLogsAreBounded(t *testing.T) {
	var total atomic.Int64
	l := newLogBuffer(&total)
	line := []byte(strings.Repeat("x", 1000) + "\n")
	for range 3000 {
		l.write(false, line)
	}
	if l.size > maxLog || l.size < maxLog-2000 || total.Load() != l.size {
		t.Errorf("the log has %d bytes, and all have %d", l.size, total.Load())
	}
	if _, next, _ := l.read(0); next != 3000 {
		t.Errorf("the next line is %d", next)
	}
	total.Add(maxLogs)
	if l.write(false, line); l.size > maxCrowded {
		t.Errorf("the log has %d bytes when all logs are large", l.size)
	}
	l.write(true, []byte(strings.Repeat("y", 3*maxLine)))
	if lines, _, _ := l.read(0); len(lines[len(lines)-1].Text) != maxLine {
		t.Errorf("a line has %d bytes", len(lines[len(lines)-1].Text))
	}
	if l.drop(); total.Load() != maxLogs {
		t.Errorf("%d bytes are left", total.Load()-maxLogs)
	}
}

func TestTail(t *testing.T) {
	l := newLogBuffer(&atomic.Int64{})
	for i := range 100 {
		l.write(false, fmt.Appendf(nil, "%d\n", i))
	}
	if got := l.tail(); !strings.HasPrefix(got, "20\n") || !strings.HasSuffix(got, "99\n") {
		t.Errorf("got %q", got)
	}
	l.write(false, []byte(strings.Repeat("x", 5000)+"\n"))
	if got := l.tail(); len(got) != 2048 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestAttach: a client reads the output since it came, and its input goes to the process. A client that does not read is
// disconnected, and others are not disturbed.
func TestAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attachments{}
		a.init(&corev1.Container{Stdin: true, StdinOnce: true, TTY: true})
		done := make(chan struct{})
		in, typed := io.Pipe()
		out, shown := io.Pipe()
		blocked, nobody := io.Pipe()
		defer blocked.Close()
		result, slow := make(chan error, 1), make(chan error, 1)
		resize := make(chan runtime.TerminalSize, 1)
		a.write(false, []byte("before"))
		go func() {
			result <- a.connect(t.Context(), runtime.Streams{Stdin: in, Stdout: shown, Resize: resize}, done)
		}()
		go func() { slow <- a.connect(t.Context(), runtime.Streams{Stdout: nobody}, done) }()
		synctest.Wait()
		resize <- runtime.TerminalSize{Width: 80, Height: 24}
		if size := <-a.resize; size.Width != 80 {
			t.Errorf("the size is %v", size)
		}
		a.write(false, []byte("hello"))
		got := make([]byte, 5)
		if _, err := io.ReadFull(out, got); err != nil || string(got) != "hello" {
			t.Errorf("%q, %v", got, err)
		}
		go func() { _, _ = io.WriteString(typed, "input"); typed.Close() }()
		if text, err := io.ReadAll(a.stdin()); err != nil || string(text) != "input" {
			t.Errorf("the input is %q, %v", text, err)
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
		for range 20 {
			a.write(false, make([]byte, 100<<10))
			synctest.Wait()
		}
		_ = blocked.Close()
		if err := <-slow; err == nil {
			t.Error("a client that does not read stays connected")
		}
		close(done)
		a.close()
		if err := <-result; err != nil {
			t.Error(err)
		}
		shown.Close()
	})
}
