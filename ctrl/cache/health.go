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

// DefaultGracePeriod is how long Check lets a kind fail if it is not told another
// time. A restart of the API server fits in.
const DefaultGracePeriod = 2 * time.Minute

// maxReported is how many kinds the error of a check names.
const maxReported = 5

// Check returns a check that fails while a cache does not have what it is asked
// for, meant for readiness:
//
//	mgr.AddReadyzCheck("cache", cache.Check(mgr.GetCache(), 0))
//
// It fails until the cache is started and the kinds that it was started with
// are complete, and again once the cache has stopped. After that it fails when
// any kind has been incomplete, or not been watched for errors, for longer than
// patience; zero means DefaultPatience. A watch that breaks off and is open
// again in time is nobody's business. The check passes again by itself.
//
// Its error names the kinds, since when they fail and why. It tells no more than
// the API server's own words or those of the network; the whole error is in the
// log.
//
// It does not belong to liveness: a restart gives the program no other server. A
// cache that New has not made is only asked whether it is in sync.
func Check(c Cache, patience time.Duration) healthz.Checker {
	patience = cmp.Or(patience, DefaultGracePeriod)
	return func(req *http.Request) error {
		if own, ok := c.(checker); ok {
			return own.check(patience)
		}
		if !c.WaitForCacheSync(req.Context()) {
			return errors.New("the cache is not in sync")
		}
		return nil
	}
}

// checker is a cache that can report which kinds are not up to date.
type checker interface {
	check(patience time.Duration) error
}

var _ checker = (*informerCache)(nil)

func (c *informerCache) check(patience time.Duration) error {
	c.mu.RLock()
	started, stopped := c.ctx != nil, c.stopped
	c.mu.RUnlock()
	switch {
	case !started:
		return errors.New("the cache is not started")
	case stopped:
		return errors.New("the cache has stopped")
	}
	var troubles []string
	for _, i := range c.allInformers() {
		for _, p := range i.partitions {
			if trouble := p.failure(patience); trouble != "" {
				troubles = append(troubles, trouble)
			}
		}
	}
	if len(troubles) == 0 {
		return nil
	}
	slices.Sort(troubles)
	if more := len(troubles) - maxReported; more > 0 {
		troubles = append(troubles[:maxReported], fmt.Sprintf("%d more", more))
	}
	return errors.New("the cache is not up to date: " + strings.Join(troubles, "; "))
}

// failure describes what is wrong with a part if it needs to be known, and
// returns nothing otherwise.
func (p *partition) failure(patience time.Duration) string {
	i := p.informer
	i.mu.Lock()
	synced := p.synced
	i.mu.Unlock()
	begun, failing, err := p.status.failure()
	long := func(since time.Time) bool { return !since.IsZero() && time.Since(since) > patience }

	var text string
	switch {
	case !synced && (i.awaited || long(begun)):
		text = "not complete, begun at " + begun.UTC().Format(time.RFC3339)
	case synced && long(failing):
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
