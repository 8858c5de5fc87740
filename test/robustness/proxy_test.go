package robustness

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy forwards connections to an address, unless it is cut. New connections wait until the server accepts them: a
// refused connection fails a request at once, so that clients would fail hundreds of times instead of a few.
type proxy struct {
	address, target string
	ended           chan struct{}

	mu    sync.Mutex
	isCut bool
	open  map[net.Conn]bool
}

// startProxy starts a proxy, which ends with the test.
func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: l.Addr().String(), target: target, ended: make(chan struct{}), open: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.forward(in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(p.ended)
		p.cut(true)
		running.Wait()
	})
	return p
}

func (p *proxy) forward(in net.Conn) {
	defer in.Close()
	out := p.dial(in)
	if out == nil {
		return
	}
	defer out.Close()
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			io.Copy(pair[0], pair[1])
			ended <- struct{}{}
		}()
	}
	<-ended
	in.Close()
	out.Close()
	<-ended
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, in)
	delete(p.open, out)
}

// dial connects to the server for a connection, when the server accepts it. It returns nil at the end.
func (p *proxy) dial(in net.Conn) net.Conn {
	for {
		out, err := net.Dial("tcp", p.target)
		if err == nil && p.add(in, out) {
			return out
		}
		if err == nil {
			out.Close()
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-p.ended:
			return nil
		}
	}
}

// add adds connections, unless the proxy is cut.
func (p *proxy) add(in, out net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isCut {
		p.open[in], p.open[out] = true, true
	}
	return !p.isCut
}

// cut closes all connections, and lets new ones wait until it is called with false.
func (p *proxy) cut(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isCut = is; is {
		for c := range p.open {
			c.Close()
		}
	}
}
