package plan

import (
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"flyball.dev/internal/inprocess"
)

// rush is a way in which the clients in this process write: each at once, or with delays that differ between clients and paths.
type rush int

// The runs of a plan differ in their rush. Of two writes with delays, one comes first with deletionsFirst, and the other with
// deletionsLast: the order of a deletion, and of a new object with the same name, decides most.
const (
	everyAtOnce rush = iota
	deletionsFirst
	deletionsLast
)

// order delays the writes of a run.
type order struct {
	rush rush
	unit time.Duration

	mu     sync.Mutex
	writes map[string]int // of each client
}

// newOrder returns the order of a run. The delays of its writes are short beside the rest of a plan.
func newOrder(r rush, rest time.Duration) *order {
	return &order{rush: r, unit: rest / 10_000, writes: map[string]int{}}
}

// mostDelayed is how many writes of a client are delayed, so that a large plan takes no longer.
const mostDelayed = 100

// delay returns how long a write waits: 10 to 20 units, and a deletion none or 100 more.
func (o *order) delay(user, method, path string) time.Duration {
	if o.rush == everyAtOnce {
		return 0
	}
	o.mu.Lock()
	o.writes[user]++
	late := o.writes[user] <= mostDelayed
	o.mu.Unlock()
	if !late {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(user + " " + method + " " + path))
	share := float64(h.Sum32()) / (1 << 32)
	if o.rush == deletionsLast {
		share = 1 - share
	}
	units := 10 * (1 + share)
	switch {
	case method != http.MethodDelete:
	case o.rush == deletionsLast:
		units += 100
	default:
		units = 0
	}
	return time.Duration(units * float64(o.unit))
}

// wrap returns a transport of a client with the order.
func (o *order) wrap(user string, transport http.RoundTripper) http.RoundTripper {
	return &orderedTransport{transport, user, o}
}

// orderedTransport is the transport of a client in this process. It delays writes.
type orderedTransport struct {
	http.RoundTripper
	user  string
	order *order
}

var (
	_ inprocess.Transport  = (*orderedTransport)(nil)
	_ inprocess.Observable = (*orderedTransport)(nil)
	_ inprocess.Discoverer = (*orderedTransport)(nil)
)

// RoundTrip implements http.RoundTripper.
func (t *orderedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		if d := t.order.delay(t.user, r.Method, r.URL.Path); d > 0 {
			select {
			case <-time.After(d):
			case <-r.Context().Done(): // the transport returns its error
			}
		}
	}
	return t.RoundTripper.RoundTrip(r)
}

// InProcess implements inprocess.Transport.
func (*orderedTransport) InProcess() bool { return true }

// Observer implements inprocess.Observable.
func (t *orderedTransport) Observer() inprocess.Observer {
	if o, ok := t.RoundTripper.(inprocess.Observable); ok {
		return o.Observer()
	}
	return nil
}

// Discovered implements inprocess.Discoverer.
func (t *orderedTransport) Discovered() *sync.Map {
	if d, ok := t.RoundTripper.(inprocess.Discoverer); ok {
		return d.Discovered()
	}
	return nil
}
