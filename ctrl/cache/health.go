package cache

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"flyball.dev/ctrl/healthz"
)

// DefaultGracePeriod is the grace period of Check if it is zero. It covers a restart of the API
// server.
const DefaultGracePeriod = 2 * time.Minute

// maxReported is the maximum number of kinds that the error of a check names.
const maxReported = 5

// Check returns a readiness check of a cache:
//
//	mgr.AddReadyzCheck("cache", cache.Check(mgr.GetCache(), 0))
//
// It fails until the cache is started and has synced the kinds that it had informers for at the
// start, and again once the cache has stopped. In between it fails while any kind has not been
// synced, or not been watched because of errors, for longer than the grace period; zero means
// DefaultGracePeriod. A watch that is reopened within that time does not fail the check. It passes
// again when the kinds have recovered.
//
// The error names the failing kinds, since when they fail and why. It contains messages of the API
// server and of the network only; the log has the whole error.
//
// It is not a liveness check: restarting the program does not repair its server. Of a cache that
// New did not make, Check only waits for WaitForCacheSync.
func Check(c Cache, gracePeriod time.Duration) healthz.Checker {
	gracePeriod = cmp.Or(gracePeriod, DefaultGracePeriod)
	return func(req *http.Request) error {
		if own, ok := c.(checker); ok {
			return own.check(gracePeriod)
		}
		if !c.WaitForCacheSync(req.Context()) {
			return errors.New("the cache is not synced")
		}
		return nil
	}
}

// checker is a cache that can report which kinds are not up to date.
type checker interface {
	check(gracePeriod time.Duration) error
}

var _ checker = (*informerCache)(nil)

// check returns an error that describes the kinds that are not up to date.
func (c *informerCache) check(gracePeriod time.Duration) error {
	c.mu.RLock()
	started, stopped := c.ctx != nil, c.stopped
	c.mu.RUnlock()
	switch {
	case !started:
		return errors.New("the cache is not started")
	case stopped:
		return errors.New("the cache has stopped")
	}
	var failures []string
	for _, i := range c.allInformers() {
		for _, p := range i.partitions {
			if failure := p.failure(gracePeriod); failure != "" {
				failures = append(failures, failure)
			}
		}
	}
	if len(failures) == 0 {
		return nil
	}
	slices.Sort(failures)
	if more := len(failures) - maxReported; more > 0 {
		failures = append(failures[:maxReported], fmt.Sprintf("%d more", more))
	}
	return errors.New("the cache is not up to date: " + strings.Join(failures, "; "))
}

// failure describes why a partition is not up to date. It returns an empty string if it is, or
// failed within the grace period only.
func (p *partition) failure(gracePeriod time.Duration) string {
	i := p.informer
	i.mu.Lock()
	synced := p.synced
	i.mu.Unlock()
	started, failing, err := p.status.failure()
	overdue := func(since time.Time) bool { return !since.IsZero() && time.Since(since) > gracePeriod }

	var text string
	switch {
	case !synced && (i.awaited || overdue(started)):
		text = "not synced, started at " + started.UTC().Format(time.RFC3339)
	case synced && overdue(failing):
		text = "not watched since " + failing.UTC().Format(time.RFC3339)
	default:
		return ""
	}
	what := i.gvk.GroupKind().String() + " " + i.gvk.Version
	if p.namespace != AllNamespaces {
		what += " in " + p.namespace
	}
	if err != nil {
		text += " (" + publicText(err) + ")"
	}
	return what + " " + text
}
