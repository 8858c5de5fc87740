package right

import (
	"context"
	"sync"

	"api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	mu     sync.Mutex
	cache  map[string]string
	remote client.Client
	zone   string
	ready  bool
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.remember(req.Name)
	if _, err := r.client(); err != nil {
		return ctrl.Result{}, err
	}
	if !r.ready {
		r.zone = "a"
		r.ready = true
	}
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return (&run{Client: r.Client}).Reconcile(ctx, app)
}

func (r *Reconciler) remember(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(name)
}

// put is called with mu.
func (r *Reconciler) put(name string) {
	r.cache[name] = name
	delete(r.cache, "")
}

// client makes the client when it is first needed.
func (r *Reconciler) client() (client.Client, error) {
	if r.remote != nil {
		return r.remote, nil
	}
	r.remote = r.Client
	return r.remote, nil
}

// run is one reconcile of one object: its fields live as long as that.
type run struct {
	client.Client
	app  *api.App
	done int
}

func (r *run) Reconcile(ctx context.Context, app *api.App) (ctrl.Result, error) {
	r.app = app
	r.done++
	return ctrl.Result{}, nil
}
