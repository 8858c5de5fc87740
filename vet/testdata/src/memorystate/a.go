package memorystate

import (
	"context"
	"sync"

	"api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var seen = map[string]bool{}

var rollout steps

// steps is state that its methods write.
type steps struct {
	app  string
	next int
}

func (s *steps) begin(app string) {
	s.app = app
	s.next = 0
}

func (s *steps) done() bool { return s.next == 3 }

type Reconciler struct {
	client.Client
	app   *api.App
	last  string
	count int
	cache map[string]string
	ready map[string]bool
	mu    sync.Mutex
	lazy  map[string]string
	steps steps
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.last = req.Name         // want `writes r.last of its reconciler`
	r.count++                 // want `writes r.count of its reconciler`
	seen[req.Name] = true     // want `writes the package variable seen`
	delete(r.ready, req.Name) // want `writes r.ready of its reconciler`
	if r.lazy == nil {
		r.lazy = map[string]string{}
	}
	rollout.begin(req.Name) // want `writes the package variable rollout`
	r.steps.begin(req.Name) // want `writes r.steps of its reconciler`
	own := &steps{}
	own.begin(req.Name)
	if rollout.done() || own.done() {
		return ctrl.Result{}, nil
	}
	name := req.Name
	name += "x"
	run := func() { r.last = name } // want `writes r.last of its reconciler`
	run()
	if err := r.Get(ctx, req.NamespacedName, r.app); err != nil { // want `writes r.app of its reconciler`
		return ctrl.Result{}, err
	}
	r.remember(name)
	r.cached(name)
	return ctrl.Result{}, nil
}

func (r *Reconciler) remember(name string) {
	r.cache[name] = name // want `writes r.cache\[name\] of its reconciler`
	other := &Reconciler{}
	other.last = name
}

func (r *Reconciler) cached(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cache[name] = name
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.cache = map[string]string{}
	return nil
}

type byValue struct{ last string }

func (r byValue) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.last = req.Name
	return ctrl.Result{}, nil
}
