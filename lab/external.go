package lab

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"flyball.dev/internal/inprocess"
)

// Call calls an external system. In a run of the lab, the call is an action: the lab chooses when it happens, and makes
// it fail, before or after its effect. In a plan (package flyball.dev/plan), the call is refused. Elsewhere Call just
// calls do. The configuration is the one that Start got. The name identifies the call, such as "bucket/create web".
func Call(config *rest.Config, name string, do func() error) error {
	if caller, ok := config.Transport.(inprocess.Caller); ok {
		return caller.Call(name, do)
	}
	return do()
}

// Call implements inprocess.Caller.
func (p *process) Call(name string, do func() error) error {
	v, err := p.world.wait(context.Background(), &action{process: p, verb: call, resource: name})
	switch {
	case err != nil:
		return err
	case v.dead, v.fault.is(CrashBefore):
		return errCrashed
	case v.fault.is(Fail):
		return fmt.Errorf("%s: connection refused", name)
	}
	err = do()
	switch {
	case v.fault.is(CrashAfter):
		p.world.crash(p)
		return errCrashed
	case v.fault.is(FailLate) && err == nil:
		return fmt.Errorf("%s: connection reset by peer", name)
	}
	return err
}

// call is the verb of a call of an external system.
const call = "call"

// Transport returns a transport to an external system: each request is a [Call].
func Transport(config *rest.Config, system string, base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (response *http.Response, err error) {
		err = Call(config, system+" "+r.Method+" "+r.URL.Path, func() error {
			response, err = base.RoundTrip(r)
			return err
		})
		if err != nil {
			discard(response)
			return nil, err
		}
		return response, nil
	})
}

// roundTripper is an http.RoundTripper.
type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
