package cache

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
)

// turn lets one transform of a kind run at a time: of what the watches tell, in all
// forms and namespaces, and of what this process writes and reads live.
type turn chan struct{}

// turnOf returns the turn of a kind.
func (c *informerCache) turnOf(gvk schema.GroupVersionKind) turn {
	t, _ := c.turns.LoadOrStore(gvk, make(turn, 1))
	return t.(turn)
}

// turnPatience is how long writes and live reads wait for their turn. They have it
// at once, unless the transform itself writes, or reads what it has written.
const turnPatience = time.Second

// errBusy is why an object was not transformed: another one is all the time.
var errBusy = errors.New("the transform is busy; does it write or read objects of its own kind?")

// take waits for the turn until ctx is done or, unless it is zero, a time is over.
// Who has taken it gives it back.
func (t turn) take(ctx context.Context, patience time.Duration) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	var over <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-over:
		return errBusy
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) giveBack() { <-t }

// transform calls the transform of the part's config, which the caller knows to
// exist, when it is its turn.
func (p *part) transform(ctx context.Context, obj client.Object, patience time.Duration) (any, error) {
	if err := p.transforming.take(ctx, patience); err != nil {
		return nil, err
	}
	defer p.transforming.giveBack()
	return p.config.Transform(obj)
}
