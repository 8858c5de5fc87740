// Package writes counts the writes of an operator.
package writes

import (
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
)

// Counter counts the requests of operators that may change something: all that are not reads,
// whatever they are answered. Events and leases are not counted, as managers write them with other
// clients than the controllers. It is safe for concurrent use.
type Counter struct{ n atomic.Int64 }

// Total returns the number of writes until now.
func (c *Counter) Total() int64 { return c.n.Load() }

// Count makes the client of a manager count its writes.
func (c *Counter) Count(o *ctrl.Options) {
	o.NewClient = func(cfg *rest.Config, options client.Options) (client.Client, error) {
		if options.HTTPClient == nil {
			made, err := rest.HTTPClientFor(cfg)
			if err != nil {
				return nil, err
			}
			options.HTTPClient = made
		}
		counted := *options.HTTPClient
		counted.Transport = &transport{next: counted.Transport, n: &c.n}
		options.HTTPClient = &counted
		return client.New(cfg, options)
	}
}

// transport counts the requests that are not reads.
type transport struct {
	next http.RoundTripper
	n    *atomic.Int64
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		t.n.Add(1)
	}
	return t.next.RoundTrip(r)
}
