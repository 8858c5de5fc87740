package controllerstest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/manager"
)

// Faults makes writes of a controller fail: before they reach the server, or after, so that they were executed.
type Faults struct {
	mu             sync.Mutex
	choose         func(n int) fault // of the nth write, counted from 0; nil if no write fails
	writes, failed int
	stop           func()
}

// fault says how a write fails. The zero fault lets it succeed.
type fault struct {
	before, after bool // whether the write fails before or after its execution
	stops         bool // whether the controller stops then
}

// NewFaults returns faults at random, the same for the same seed and the same writes. After half of them the controller stops.
func NewFaults(seed uint64) *Faults {
	random := rand.New(rand.NewPCG(seed, 2))
	return &Faults{choose: func(int) fault {
		n := random.IntN(10)
		if n >= 2 {
			return fault{}
		}
		return fault{before: n == 0, after: n == 1, stops: random.IntN(2) == 0}
	}}
}

// FailWrites makes the writes fail for which a function returns true, before or after their execution. They are counted from 0.
func FailWrites(fails func(n int) bool, executed bool) *Faults {
	return &Faults{choose: func(n int) fault { return fault{before: fails(n) && !executed, after: fails(n) && executed} }}
}

// End ends the faults. No later write fails.
func (f *Faults) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choose = nil
}

// Writes returns how many writes there were, up to the end.
func (f *Faults) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// Failed returns how many writes have failed.
func (f *Faults) Failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// next returns what happens to the next write.
func (f *Faults) next() fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.choose == nil {
		return fault{}
	}
	is := f.choose(f.writes)
	f.writes++
	if is.before || is.after {
		f.failed++
	}
	return is
}

// ErrFault is the error of writes that fail.
var ErrFault = errors.New("the connection broke")

// faultyTransport executes requests with faults.
type faultyTransport struct {
	http.RoundTripper
	*Faults
}

// RoundTrip implements [http.RoundTripper].
func (f *faultyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/events") {
		return f.RoundTripper.RoundTrip(r)
	}
	is := f.next()
	if is.before {
		if is.stops {
			f.stop()
		}
		return nil, ErrFault
	}
	response, err := f.RoundTripper.RoundTrip(r)
	if is.after && err == nil {
		response.Body.Close()
		if is.stops {
			f.stop()
		}
		return nil, ErrFault
	}
	return response, err
}

// RunController runs one controller for a while, with faults. It is for a control plane without controllers.
func (e Env) RunController(name string, f *Faults, d time.Duration) {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	f.stop = cancel
	mgr, err := manager.New(e.ConfigFor(controllers.ManagerIdentity), e.ManagerOptions())
	e.Must(err)
	o := controllers.Options{ConfigFor: func(id controllers.Identity) *rest.Config {
		cfg := e.ConfigFor(id)
		cfg.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &faultyTransport{inner, f} })
		return cfg
	}}
	e.Must(o.Select(name))
	e.Must(controllers.AddAll(mgr, o))
	e.Must(mgr.Start(ctx))
}

// RunWithFaults runs a controller with faults and frequent restarts until done reports true, and then for five minutes
// without faults. Meanwhile, it calls step every second of virtual time.
func (e Env) RunWithFaults(name string, seed uint64, step func(), done func() bool) {
	e.Helper()
	f, random := NewFaults(seed), rand.New(rand.NewPCG(seed, 3))
	restarts := 0
	for ; !done(); restarts++ {
		if restarts > 2000 {
			e.Fatal("it does not end")
		}
		ended, d := make(chan struct{}), time.Duration(1+random.IntN(30))*time.Second
		go func() {
			defer close(ended)
			e.RunController(name, f, d)
		}()
		for running := true; running; {
			select {
			case <-ended:
				running = false
			case <-time.After(time.Second): // virtual
				step()
			}
		}
	}
	f.End()
	e.RunController(name, f, 5*time.Minute)
	e.Logf("%d restarts, %d failed writes", restarts, f.Failed())
}
