package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/internal/clientscheme"
)

const (
	// flushInterval is how long an entry may be unreadable.
	flushInterval = time.Second
	// discoveryInterval is how often the recorder looks for new resources. It looks at once when a definition changes.
	discoveryInterval = time.Minute
	// settle is how long a change of a definition takes to show in discovery.
	settle = 500 * time.Millisecond
	// listers is how many resources are listed at the same time.
	listers = 8
)

// Options select the objects and the fields of a recording.
type Options struct {
	// Kinds are the resources to record, by plural, singular, short name or kind, each with or without its group; all if
	// there are none.
	Kinds []string
	// Redactor, if not nil, redacts objects.
	Redactor *Redactor
	// Notice, if not nil, is called with what the recorder cannot record, each time once.
	Notice func(text string)
	// Listed, if not nil, is called when all objects were recorded once.
	Listed func(objects int)
}

// Cluster records a cluster. It makes only requests with the verbs get, list and watch.
type Cluster struct {
	client  *rest.RESTClient
	options Options
	out     sink

	again   chan struct{} // has a value when the resources may have changed
	slots   chan struct{} // limits the lists
	changes atomic.Int64

	mu      sync.Mutex
	noticed map[string]bool
}

// sink receives the entries of a recorder. It may be used by several goroutines at once.
type sink interface{ Write(Entry) error }

// NewCluster returns a recorder of the cluster of a configuration, and the header of its recording. It fails if the API server
// does not answer.
func NewCluster(ctx context.Context, config *rest.Config, o Options) (*Cluster, Header, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Timeout = -1, 0
	config.WarningHandler, config.WarningHandlerWithContext = rest.NoWarnings{}, nil // deprecated kinds are recorded too
	config.NegotiatedSerializer = clientscheme.Codecs().WithoutConversion()
	config.AcceptContentTypes, config.ContentType = "application/json", "application/json"
	if o.Redactor == nil {
		o.Redactor = &Redactor{}
	}
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, Header{}, err
	}
	c := &Cluster{client: client, options: o, again: make(chan struct{}, 1), slots: make(chan struct{}, listers), noticed: map[string]bool{}}
	body, err := get(ctx, client.Get().AbsPath("/version"))
	if err != nil {
		return nil, Header{}, err
	}
	h := Header{Began: time.Now(), Server: config.Host, Redacted: o.Redactor.fields()}
	_ = members(body, func(name string, value []byte) bool {
		if name == "gitVersion" {
			h.Version = text(value)
		}
		return true
	})
	return c, h, nil
}

// Changes returns how many objects and changes have been recorded.
func (c *Cluster) Changes() int64 { return c.changes.Load() }

// Record records until ctx ends, and then returns nil. It keeps on recording if the server does not answer for a while, or
// refuses some resources. It returns an error if it may read no resource, if no resource has a name of Options.Kinds, or if
// w fails.
func (c *Cluster) Record(ctx context.Context, w *Writer) error {
	c.out = w
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil) // before the wait
	streams := map[Resource]*stream{}
	if err := c.update(ctx, &running, cancel, streams, true); err != nil {
		return ended(ctx, err)
	}
	running.Go(func() { c.listed(ctx, slices.Collect(maps.Values(streams)), cancel) })
	flush, discover := time.NewTicker(flushInterval), time.NewTicker(discoveryInterval)
	defer flush.Stop()
	defer discover.Stop()
	for {
		select {
		case <-ctx.Done():
			return ended(ctx, context.Cause(ctx))
		case <-flush.C:
			if err := w.Flush(); err != nil {
				return err
			}
			continue
		case <-c.again:
			select {
			case <-ctx.Done():
				continue
			case <-time.After(settle):
			}
		case <-discover.C:
		}
		if err := c.update(ctx, &running, cancel, streams, false); err != nil && ctx.Err() == nil {
			c.notice(fmt.Sprintf("cannot see which kinds there are: %v", err))
		}
	}
}

// ended returns the error for which a recording has ended, and nil if the context of its user has.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// update starts the streams of new resources, and ends the ones of resources that are not served any more.
func (c *Cluster) update(ctx context.Context, running *sync.WaitGroup, fail context.CancelCauseFunc, streams map[Resource]*stream, first bool) error {
	all, failed, err := c.discoverResources(ctx)
	if err != nil {
		return err
	}
	for gv, err := range failed {
		c.notice(fmt.Sprintf("%s is not recorded: %v", gv, err))
	}
	resources, unknown := selectResources(all, c.options.Kinds)
	if first && len(unknown) > 0 {
		return fmt.Errorf("the cluster has no kind that can be recorded with the name %s", strings.Join(unknown, ", "))
	}
	for _, r := range resources {
		if streams[r] != nil {
			continue
		}
		streamContext, cancel := context.WithCancel(ctx)
		s := &stream{cluster: c, resource: &r, cancel: cancel, done: make(chan struct{}), firstList: make(chan struct{}),
			known: map[Key]version{}}
		streams[r] = s
		if err := c.out.Write(Entry{Type: Served, Resource: s.resource}); err != nil {
			return err
		}
		running.Go(func() {
			defer close(s.done)
			if err := s.run(streamContext); err != nil {
				fail(err)
			}
		})
	}
	for r, s := range streams {
		_, unsure := failed[r.GroupVersion()]
		if unsure || slices.Contains(resources, r) {
			continue
		}
		s.cancel()
		<-s.done
		delete(streams, r)
		if err := c.out.Write(Entry{Type: Removed, Resource: s.resource}); err != nil {
			return err
		}
	}
	return nil
}

// listed waits until streams have listed their objects, and tells it.
func (c *Cluster) listed(ctx context.Context, streams []*stream, fail context.CancelCauseFunc) {
	readable := false
	var refused error
	for _, s := range streams {
		select {
		case <-s.firstList:
			if s.refused == nil {
				readable = true
			} else {
				refused = s.refused
			}
		case <-s.done:
		case <-ctx.Done():
			return
		}
	}
	switch {
	case !readable && refused != nil:
		fail(fmt.Errorf("no kind can be read: %w", refused))
	case c.options.Listed != nil:
		c.options.Listed(int(c.changes.Load()))
	}
}

// notice tells something once.
func (c *Cluster) notice(text string) {
	c.mu.Lock()
	told := c.noticed[text]
	c.noticed[text] = true
	c.mu.Unlock()
	if !told && c.options.Notice != nil {
		c.options.Notice(text)
	}
}

// changed makes the recorder look for new resources.
func (c *Cluster) changed() {
	select {
	case c.again <- struct{}{}:
	default:
	}
}

// get returns the body of a response.
func get(ctx context.Context, r *rest.Request) ([]byte, error) {
	result := r.Do(ctx)
	if err := result.Error(); err != nil { // Raw does not decode the Status of an error
		return nil, err
	}
	return result.Raw()
}
