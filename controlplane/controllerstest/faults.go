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

// Faults makes the writes of a controller fail at random: before they reach the server, or after, so that they were
// executed. After half of the failures the controller stops.
type Faults struct {
	mu     sync.Mutex
	random *rand.Rand // nil if no write fails
	failed int
	stop   func()
}

// NewFaults returns faults that are the same for the same seed and the same writes.
func NewFaults(seed uint64) *Faults { return &Faults{random: rand.New(rand.NewPCG(seed, 2))} }

// End ends the faults. No later write fails.
func (f *Faults) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.random = nil
}

// Failed returns how many writes have failed.
func (f *Faults) Failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// next returns whether a write fails before or after its execution, and whether the controller stops then.
func (f *Faults) next() (before, after, stops bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random == nil {
		return false, false, false
	}
	n := f.random.IntN(10)
	if n >= 2 {
		return false, false, false
	}
	f.failed++
	return n == 0, n == 1, f.random.IntN(2) == 0
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
	before, after, stops := f.next()
	if before {
		if stops {
			f.stop()
		}
		return nil, ErrFault
	}
	response, err := f.RoundTripper.RoundTrip(r)
	if after && err == nil {
		response.Body.Close()
		if stops {
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
