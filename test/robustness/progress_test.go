package robustness

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// progress follows the revisions of servers, so that there is traffic between faults on a slow machine, too.
type progress struct {
	t        *testing.T
	client   *clientv3.Client
	revision int64
}

// newProgress returns the progress of the servers at some endpoints, from their beginning.
func newProgress(t *testing.T, endpoints []string) *progress {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &progress{t: t, client: c}
}

// wait waits for a duration, and then until the servers have written so many revisions since the last call, for a minute
// at most.
func (p *progress) wait(d time.Duration, revisions int64) {
	p.t.Helper()
	<-time.After(d)
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	next := time.NewTicker(50 * time.Millisecond)
	defer next.Stop()
	for {
		response, err := p.client.Get(ctx, "progress") // which no client writes
		if err == nil && response.Header.Revision >= p.revision+revisions {
			p.revision = response.Header.Revision
			return
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			p.t.Fatalf("the servers have not written %d revisions after %d: %v", revisions, p.revision, err)
		}
	}
}
