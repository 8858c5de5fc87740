package runtime

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b:c", true}, {"a*", "ab", true}, {"a*", "ba", false}, {"a", "ab", false},
		{"*a*b", "xaxab", true}, {"*a*b", "xaxa", false}, {"a**b", "ab", true}, {"a*a", "a", false}, {"*ab*", "aab", true}, {"*:404", "a:404:404", true},
		{strings.Repeat("*a", 40) + "b", strings.Repeat("a", 10_000), false},
	} {
		if got := Match(tt.pattern, tt.s); got != tt.want {
			t.Errorf("%.20q matches %.20q: %v", tt.pattern, tt.s, got)
		}
	}
}

func pod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
}

func TestHandlersAreFoundBySelector(t *testing.T) {
	web := pod("web", map[string]string{"app": "web"})
	container := &corev1.Container{Name: "c", Image: "docker.io/library/postgres:17"}
	for _, tt := range []struct {
		selector Selector
		exec     bool
		args     []string
		want     bool
	}{
		{Selector{}, false, nil, true},
		{Selector{}, true, []string{"ls"}, true},
		{Selector{Namespace: "default", Pod: "web", Labels: "app in (web, db)", Container: "c", Image: "*postgres:*", Command: "psql"}, true, []string{"/usr/bin/psql", "-c"}, true},
		{Selector{Namespace: "other"}, false, nil, false},
		{Selector{Pod: "we"}, false, nil, false},
		{Selector{Labels: "app!=web"}, false, nil, false},
		{Selector{Container: "d"}, false, nil, false},
		{Selector{Image: "postgres:*"}, false, nil, false},
		{Selector{Command: "psql"}, true, nil, false},
		{Selector{Command: "psql"}, true, []string{"pg_ctl"}, false},
	} {
		var h Handlers
		register := h.Handle
		if tt.exec {
			register = h.HandleExec
		}
		remove, err := register(tt.selector, func(context.Context, *Process) int { return 7 })
		if err != nil {
			t.Fatal(err)
		}
		p := &Process{Pod: web, Container: container, Args: tt.args, Exec: tt.exec}
		if found := h.Find(p, nil); (found != nil) != tt.want || found != nil && found(t.Context(), p) != 7 {
			t.Errorf("%+v, exec %v: found %v", tt.selector, tt.exec, found != nil)
		}
		p.Exec = !tt.exec
		if h.Find(p, nil) != nil {
			t.Errorf("%+v: found for the other sort of process", tt.selector)
		}
		p.Exec = tt.exec
		if remove(); h.Find(p, nil) != nil {
			t.Errorf("%+v: found after its removal", tt.selector)
		}
	}
	var h Handlers
	if _, err := h.Handle(Selector{Labels: "a in"}, nil); err == nil {
		t.Error("a selector that does not parse")
	}
	if _, err := h.Listen(Selector{Labels: "=("}, 1); err == nil {
		t.Error("a selector of a listener that does not parse")
	}
}

// TestHandlersInOrder: the last handler is called first, and each can call the next.
func TestHandlersInOrder(t *testing.T) {
	var h Handlers
	for code := range 3 {
		if _, err := h.Handle(Selector{}, func(ctx context.Context, p *Process) int { return 10*p.Next(ctx, p) + code }); err != nil {
			t.Fatal(err)
		}
	}
	p := &Process{Pod: pod("p", nil), Container: &corev1.Container{}}
	if code := h.Find(p, func(context.Context, *Process) int { return 9 })(t.Context(), p); code != 9012 {
		t.Errorf("the handlers were called in the order %d", code)
	}
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Handlers
		web := pod("web", map[string]string{"app": "web"})
		l, err := h.Listen(Selector{Labels: "app=web"}, 80)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(c, c.LocalAddr().String())
			c.Close()
		}()
		c, err := h.Dial(t.Context(), web, 80)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(c); string(text) != "web.default.pod:80" {
			t.Errorf("got %q", text)
		}
		for name, dial := range map[string]func() (net.Conn, error){
			"another port": func() (net.Conn, error) { return h.Dial(t.Context(), web, 81) },
			"another pod":  func() (net.Conn, error) { return h.Dial(t.Context(), pod("db", nil), 80) },
			"no handlers":  func() (net.Conn, error) { return (*Handlers)(nil).Dial(t.Context(), web, 80) },
		} {
			if _, err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: %v", name, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		dialed := make(chan error)
		dial := func() { _, err := h.Dial(ctx, web, 80); dialed <- err }
		go dial()
		synctest.Wait()
		cancel()
		if err := <-dialed; !errors.Is(err, context.Canceled) {
			t.Errorf("a dial that nobody accepts: %v", err)
		}
		ctx = t.Context()
		go dial()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-dialed; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial when the listener is closed: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: %v", err)
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the second close: %v", err)
		}
	})
}

func TestForward(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var h Handlers
	changes := 0
	h.Watch(func(Selector) { changes++ })
	db := pod("db", nil)
	remove, err := h.Forward(Selector{Pod: "db"}, 5432, l.Addr().String())
	if err != nil || !h.Serves(db, 5432) || h.Serves(pod("web", nil), 5432) {
		t.Fatalf("%v", err)
	}
	c, err := h.Dial(t.Context(), db, 5432)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if remove(); h.Serves(db, 5432) || changes != 2 {
		t.Errorf("after its removal, with %d changes", changes)
	}
	if _, err := h.Forward(Selector{}, 1, "localhost"); err == nil {
		t.Error("an address without a port")
	}
}

// TestForwardTo: a function connects to all ports of a pod, but to none with a listener.
func TestForwardTo(t *testing.T) {
	var h Handlers
	refused := errors.New("refused")
	remove, err := h.ForwardTo(Selector{Pod: "db"}, 0, func(_ context.Context, port int32) (net.Conn, error) {
		if port != 5432 {
			return nil, refused
		}
		client, _ := net.Pipe()
		return client, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	db := pod("db", nil)
	c, err := h.Dial(t.Context(), db, 5432)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := h.Dial(t.Context(), db, 22); !errors.Is(err, refused) || !h.Serves(db, 22) {
		t.Errorf("another port: %v", err)
	}
	if h.Serves(pod("web", nil), 5432) {
		t.Error("another pod is served")
	}
	if remove(); h.Serves(db, 5432) {
		t.Error("the pod is served after the removal")
	}
}
