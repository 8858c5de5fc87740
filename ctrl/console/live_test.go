package console

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/manager"
)

// quietManager is a manager that logs nothing.
type quietManager struct{ manager.Manager }

func (quietManager) GetLogger() logr.Logger { return logr.Discard() }

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// TestDay: a browser that reads a stream for a day gets an event every five seconds, though nothing happens. The stream of one that
// does not read any more ends.
func TestDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		c := &Console{manager: quietManager{}, recorder: observe.New(0), streams: make(chan struct{}, 1), listener: listener}
		c.handler = http.HandlerFunc(c.live)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- c.serve(ctx) }()

		browser, conn := net.Pipe()
		listener.conns <- conn
		if _, err := browser.Write([]byte("GET /console/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(browser), nil)
		if err != nil {
			t.Fatal(err)
		}
		const day = 24 * time.Hour
		events, lines, start := 0, bufio.NewScanner(response.Body), time.Now()
		for time.Since(start) < day && lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data: ") {
				events++
			}
		}
		if want := int(day / observe.HistoryStep); events != want || lines.Err() != nil {
			t.Errorf("%d events, want %d: %v", events, want, lines.Err())
		}
		w := httptest.NewRecorder()
		if c.live(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/live", nil)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a stream too many: %d %s", w.Code, w.Body)
		}
		time.Sleep(time.Minute)
		if len(c.streams) != 0 {
			t.Error("the stream of a browser that does not read has not ended")
		}
		cancel()
		if err := errors.Join(<-served, browser.Close()); err != nil {
			t.Error(err)
		}
	})
}

// deaf is a browser that reads nothing.
type deaf struct {
	header  http.Header
	waiting chan<- struct{}
	gone    <-chan struct{}
}

func (d deaf) Header() http.Header { return d.header }
func (d deaf) WriteHeader(int)     {}
func (d deaf) Write([]byte) (int, error) {
	d.waiting <- struct{}{}
	<-d.gone
	return 0, errors.New("the browser is gone")
}

// TestDeafBrowsers: the operator does not wait for browsers that request every page, and read none.
func TestDeafBrowsers(t *testing.T) {
	s := open(t, shopOptions{})
	s.create(t, "shop", "one")
	paths := []string{"live"}
	for _, v := range views {
		path := v.path + "?name=site&controller=site&request=default/shop&id=1&reconcile=1"
		if v.path == "object" {
			path = "object?kind=ConfigMap&name=default/shop"
		}
		paths = append(paths, path, "api/"+path)
	}
	waiting, gone := make(chan struct{}), make(chan struct{})
	var browsers sync.WaitGroup
	for _, path := range paths {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/console/"+path, nil)
		r.Header.Set("Authorization", "Bearer "+s.console.options.Token)
		browsers.Go(func() { s.console.handler.ServeHTTP(deaf{http.Header{}, waiting, gone}, r) })
	}
	for range paths {
		<-waiting
	}
	s.set(t, "shop", "motto", "two")
	key := s.console.key(s.console.recorder.Controllers()[0], "default/shop", 1, ^uint64(0))
	if len(key.Reconciles) == 0 || key.More == 0 {
		t.Errorf("the operator has reconciled %+v", key)
	}
	close(gone)
	browsers.Wait()
}
