package record

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
)

// ReadCluster returns the objects that a cluster has now. It makes only requests with the verbs get and list, and lists each
// resource once, so the objects of different resources are some milliseconds apart. Moment.Incomplete has the resources that
// could not be read. ReadCluster fails if the API server does not answer, if no resource can be read, or if ctx ends.
func ReadCluster(ctx context.Context, config *rest.Config, o Options) (*Moment, error) {
	c, header, err := NewCluster(ctx, config, o)
	if err != nil {
		return nil, err
	}
	all, failed, err := c.discoverResources(ctx)
	if err != nil {
		return nil, err
	}
	for gv, err := range failed {
		c.notice(fmt.Sprintf("%s cannot be read: %v", gv, err))
	}
	resources, unknown := selectResources(all, o.Kinds)
	if len(unknown) > 0 {
		return nil, fmt.Errorf("the cluster has no kinds %q", unknown)
	}
	m := &momentSink{moment: NewMoment(header)}
	c.out = m
	errs := make([]error, len(resources))
	var running sync.WaitGroup
	for i := range resources {
		running.Go(func() { errs[i] = c.readAll(ctx, &resources[i]) })
	}
	running.Wait()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	failures := 0
	for _, err := range errs {
		if err != nil {
			failures++
		}
	}
	if failures == len(resources) {
		return nil, fmt.Errorf("no kind can be read: %w", errors.Join(errs[:min(1, len(errs))]...))
	}
	return m.moment, nil
}

// readAll lists a resource, and notes why it cannot be read.
func (c *Cluster) readAll(ctx context.Context, r *Resource) error {
	if err := c.out.Write(Entry{Type: Served, Resource: r}); err != nil {
		return err
	}
	s := &stream{cluster: c, resource: r, firstList: make(chan struct{}), known: map[Key]version{}}
	err := s.list(ctx)
	if err != nil {
		return errors.Join(err, c.out.Write(Entry{Type: Missing, Resource: r, Text: err.Error()}))
	}
	return nil
}

// momentSink makes a moment of entries.
type momentSink struct {
	mu     sync.Mutex
	moment *Moment
}

// Write implements sink.
func (m *momentSink) Write(e Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Time.IsZero() {
		e.Time = m.moment.Time
	}
	m.moment.Apply(e)
	return nil
}
