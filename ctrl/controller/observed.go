package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/reconcile"
)

var _ observe.Controls = (*controller[string])(nil)

// observe has the recorder record the reconciles of the controller, unless it is nil.
func (c *controller[request]) observe(r *observe.Recorder) {
	if r != nil {
		c.record = r.AddController(c)
	}
}

// beginRun begins the record of a reconcile.
func (p *workerPool[request]) beginRun(w *observe.Worker, item queue.Item[request]) *observe.Run {
	if req, ok := any(item.Key).(reconcile.Request); ok {
		return w.Begin(req.NamespacedName, nil, item.Causes, item.Priority, item.StartedAt)
	}
	return w.Begin(types.NamespacedName{}, item.Key, item.Causes, item.Priority, item.StartedAt)
}

// observed returns the outcome as it is recorded.
func (o outcome) observed(took time.Duration, err error) observe.Outcome {
	recorded := observe.Outcome{Took: took, Result: o.result, After: o.after, Conflict: o.conflict}
	if err != nil {
		recorded.Err = err.Error()
	}
	return recorded
}

// ControllerName implements observe.Controls.
func (c *controller[request]) ControllerName() string { return c.name }

// Kind implements observe.Controls.
func (c *controller[request]) Kind() schema.GroupVersionKind { return c.options.Kind }

// MaxWorkers implements observe.Controls.
func (c *controller[request]) MaxWorkers() int { return c.options.MaxConcurrentReconciles }

// currentQueue returns the queue, or nil if the sources are not started.
func (c *controller[request]) currentQueue() workqueue.TypedRateLimitingInterface[request] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources == nil {
		return nil
	}
	return c.sources.queue
}

// Stopped implements observe.Controls. Sources that were started by Warmup may end before the controller starts.
func (c *controller[request]) Stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped || !c.started && c.sources != nil && c.sources.ctx.Err() != nil
}

// text is the text of a request in the console.
func text[request comparable](key request) string {
	if req, ok := any(key).(reconcile.Request); ok {
		return observe.NameText(req.NamespacedName)
	}
	return observe.RequestText(key)
}

// parse returns the request with a text.
func (c *controller[request]) parse(text string) (req request, err error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok {
		namespace, name = "", text
	}
	if name == "" {
		return req, fmt.Errorf("%q is no request: it must be NAMESPACE/NAME or NAME", text)
	}
	req, ok = any(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}).(request)
	if !ok {
		return req, fmt.Errorf("the requests of controller %s are not names but of type %T", c.name, req)
	}
	return req, nil
}

// Queue implements observe.Controls.
func (c *controller[request]) Queue(offset, limit int) (observe.Queue, bool) {
	q, ok := c.currentQueue().(queue.Inspector[request])
	if !ok {
		return observe.Queue{}, false
	}
	s := q.Snapshot(offset, limit)
	return observe.Queue{
		Ready: s.Ready, Waiting: s.Waiting, Processing: s.Processing, Depth: s.Depth, Oldest: s.Oldest,
		ReadyKeys: queuedAll(s.ReadyKeys), WaitingKeys: queuedAll(s.WaitingKeys), ProcessingKeys: queuedAll(s.ProcessingKeys),
	}, true
}

func queuedAll[request comparable](keys []queue.Queued[request]) []observe.Queued {
	all := make([]observe.Queued, len(keys))
	for i, k := range keys {
		all[i] = queued(k)
	}
	return all
}

func queued[request comparable](k queue.Queued[request]) observe.Queued {
	return observe.Queued{
		Request: text(k.Key), Priority: k.Priority, Causes: k.Causes, Since: k.Since, Due: k.Due, Again: k.Again,
	}
}

// Find implements observe.Controls.
func (c *controller[request]) Find(name string) (observe.Queued, string, bool) {
	key, err := c.parse(name)
	if err != nil {
		return observe.Queued{}, "", false
	}
	if item, ok := c.holds.isParked(key); ok {
		found := queued(queue.Queued[request]{Key: key, Priority: item.Priority, Causes: item.Causes, Since: item.StartedAt})
		return found, "paused", true
	}
	q, ok := c.currentQueue().(queue.Inspector[request])
	if !ok {
		return observe.Queued{}, "", false
	}
	found, state, ok := q.Find(key)
	return queued(found), state, ok
}

// Held implements observe.Controls.
func (c *controller[request]) Held() (all bool, names []string) {
	all, keys := c.holds.held()
	for _, key := range keys {
		names = append(names, text(key))
	}
	slices.Sort(names)
	return all, names
}

// Retries implements observe.Controls.
func (c *controller[request]) Retries(name string) int {
	key, err := c.parse(name)
	q := c.currentQueue()
	if err != nil || q == nil {
		return 0
	}
	return q.NumRequeues(key)
}

// Pause implements observe.Controls.
func (c *controller[request]) Pause(name string) error {
	if name == "" {
		c.holds.pause(nil)
		return nil
	}
	key, err := c.parse(name)
	if err == nil {
		c.holds.pause(&key)
	}
	return err
}

// Resume implements observe.Controls.
func (c *controller[request]) Resume(name string) error {
	var parked []queue.Item[request]
	if name == "" {
		parked = c.holds.resume(nil)
	} else {
		key, err := c.parse(name)
		if err != nil {
			return err
		}
		parked = c.holds.resume(&key)
	}
	if q := c.currentQueue(); q != nil {
		addAgain(viewOf(q), parked)
	}
	return nil
}

var (
	errNotStarted = errors.New("the controller has not started")
	errStopped    = errors.New("the controller has stopped")
)

// openQueue returns the queue, or an error if it takes no requests.
func (c *controller[request]) openQueue() (workqueue.TypedRateLimitingInterface[request], error) {
	q := c.currentQueue()
	switch {
	case c.Stopped():
		return nil, errStopped
	case q == nil:
		return nil, errNotStarted
	}
	return q, nil
}

// Now implements observe.Controls.
func (c *controller[request]) Now(name string) error {
	key, err := c.parse(name)
	if err != nil {
		return err
	}
	q, err := c.openQueue()
	if err != nil {
		return err
	}
	viewOf(q).AddWithCause(reconcile.Cause{Kind: reconcile.CauseManual}, queue.AddOpts{}, key)
	return nil
}

// Forget implements observe.Controls.
func (c *controller[request]) Forget(name string) error {
	key, err := c.parse(name)
	if err != nil {
		return err
	}
	q, err := c.openQueue()
	if err != nil {
		return err
	}
	q.Forget(key)
	if _, state, ok := c.Find(name); ok && state == "waiting" {
		return c.Now(name)
	}
	return nil
}
