package example

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	"flyball.dev/examples/internal/reconciles"
)

// World is a control plane with the kinds of an example, and the operators that run on it. Its
// methods must not be called concurrently.
type World struct {
	// Config is an administrator's.
	Config *rest.Config
	// Client is an administrator's, without a cache. It knows the kinds of client-go and of the
	// example, and CustomResourceDefinitions.
	Client client.WithWatch
	// Reconciles has the reconciles of all operators that were started.
	Reconciles *reconciles.Recorder

	example   *Example
	account   *rest.Config // with which operators run
	operators []*Operator
}

// NewWorld installs the kinds of an example on a control plane, and creates the service account of
// its operators. The config is an administrator's.
func NewWorld(ctx context.Context, e *Example, cfg *rest.Config) (*World, error) {
	c, err := e.newClient(cfg)
	if err != nil {
		return nil, err
	}
	if err := e.install(ctx, c); err != nil {
		return nil, err
	}
	account, err := e.asServiceAccount(ctx, c, cfg)
	return &World{Config: cfg, Client: c, Reconciles: reconciles.NewRecorder(), example: e, account: account}, err
}

// CreateSamples creates the samples of the example and returns them.
func (w *World) CreateSamples(ctx context.Context) ([]*unstructured.Unstructured, error) {
	samples, err := manifests[unstructured.Unstructured](w.example.Config, "samples")
	if err != nil {
		return nil, err
	}
	for _, sample := range samples {
		if err := w.Client.Create(ctx, sample); err != nil {
			return nil, fmt.Errorf("%s %s: %w", sample.GetKind(), sample.GetName(), err)
		}
	}
	return samples, nil
}

// Start starts an operator, as a service account with the permissions of the example's manifests,
// and waits until it is elected. The changes are made to the options of its manager. A tour
// stops it at its end, if no step does.
func (w *World) Start(ctx context.Context, changes ...func(*ctrl.Options)) (*Operator, error) {
	o, err := w.StartReplica(changes...)
	if err != nil {
		return nil, err
	}
	return o, o.Elected(ctx)
}

// StartReplica is as Start, but does not wait until the operator is elected.
func (w *World) StartReplica(changes ...func(*ctrl.Options)) (*Operator, error) {
	var changed error
	defaults := func(o *ctrl.Options) {
		o.LeaderElectionNamespace = Namespace
		o.Controller.TracerProvider = w.Reconciles.Provider()
		lease, renew, retry := 4*time.Second, 3*time.Second, 50*time.Millisecond
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &lease, &renew, &retry
		changed = w.example.onLoopback(o)
	}
	f := flags{metricsAddress: "0", probeAddress: "0", logger: logr.New(log.NullLogSink{})}
	mgr, err := w.example.newManager(w.account, f, append([]func(*ctrl.Options){defaults}, changes...)...)
	if err := errors.Join(changed, err); err != nil {
		return nil, err
	}
	o := start(context.Background(), mgr)
	w.operators = append(w.operators, o)
	return o, nil
}

// StartIdle is as Start, and waits until the operator has nothing to do.
func (w *World) StartIdle(ctx context.Context, changes ...func(*ctrl.Options)) (*Operator, error) {
	o, err := w.Start(ctx, changes...)
	if err != nil {
		return o, err
	}
	return o, o.Idle(ctx)
}

// NoWrites calls do and returns an error if an operator writes anything because of what that does.
func (w *World) NoWrites(ctx context.Context, do func() error) error {
	before, err := w.writes(ctx)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := w.writes(ctx)
	if err == nil && after != before {
		err = fmt.Errorf("the operator has written %d times", after-before)
	}
	return err
}

// writes returns the number of writes of all operators until now, when they have nothing left to do.
func (w *World) writes(ctx context.Context) (n int, err error) {
	for _, o := range w.operators {
		err = errors.Join(err, o.Idle(ctx))
	}
	for _, r := range w.Reconciles.Ended() {
		n += len(r.Writes)
	}
	return n, err
}

// LeaderElectionID returns the name of the Lease for which replicas of the operator compete.
func (w *World) LeaderElectionID() string { return w.example.leaderElectionID() }

// Stop stops all operators.
func (w *World) Stop() error {
	var all error
	for _, o := range w.operators {
		all = errors.Join(all, o.Stop())
	}
	return all
}
