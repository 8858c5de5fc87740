package right

import (
	"context"
	"os"
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
	uid    string
	zones  []string
	counts counts

	// seen is lost on restart: then each object is looked at once more. There is one worker.
	seen map[string]bool
	last string // in memory only
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.seen[req.Name] = true
	r.last = req.Name
	r.remember(req.Name)
	if _, err := r.client(); err != nil {
		return ctrl.Result{}, err
	}
	if !r.ready {
		r.zone = "a"
		r.ready = true
	}
	r.discover()
	r.counts.add(req.Name)
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

// discover finds out once what never changes.
func (r *Reconciler) discover() {
	if r.uid == "" {
		if uid := os.Getenv("POD_UID"); uid != "" {
			r.uid = uid
		}
	}
	if len(r.zones) == 0 {
		r.zones = []string{r.zone}
	}
}

// counts may be used by several workers.
type counts struct {
	mu    sync.Mutex
	names map[string]int
}

func (c *counts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names[name]++
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
