// Package crash interrupts reconcilers at their writes, for tests of what the next process makes of
// it.
package crash

import (
	"context"
	"errors"
	"fmt"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// Err is the error of the write at which a client crashes.
var Err = errors.New("the process has crashed")

// Point is where a client crashes.
type Point struct {
	// Write is the number of the write, from 1. With 0 the client does not crash.
	Write int
	// After is whether the write is done, and only its answer lost.
	After bool
}

func (p Point) String() string {
	if p.After {
		return fmt.Sprintf("after write %d", p.Write)
	}
	return fmt.Sprintf("before write %d", p.Write)
}

// Client is a client that crashes once, and writes nothing then until it is restarted. It is not safe for concurrent use.
type Client struct {
	client.WithWatch
	// Writes are the writes that were done, such as "create *v1.Job web".
	Writes []string
	// Crashed is whether the point was reached.
	Crashed bool

	point Point
	count int
	dead  bool
}

// Restart lets the client of a process that has crashed write again, as the client of its successor.
func (c *Client) Restart() { c.dead = false }

// NewClient returns a client that crashes at a point.
func NewClient(c client.WithWatch, p Point) *Client {
	crashing := &Client{point: p}
	crashing.WithWatch = interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return crashing.write("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return crashing.write("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			return crashing.write("patch", obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return crashing.write("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, subResource string, obj client.Object,
			opts ...client.SubResourceUpdateOption) error {
			return crashing.write("update "+subResource+" of", obj, func() error {
				return c.SubResource(subResource).Update(ctx, obj, opts...)
			})
		},
	})
	return crashing
}

// write does a write, unless the client crashes before.
func (c *Client) write(verb string, obj client.Object, do func() error) error {
	if c.dead {
		return Err
	}
	c.count++
	crash := c.count == c.point.Write
	c.Crashed, c.dead = c.Crashed || crash, crash
	if crash && !c.point.After {
		return Err
	}
	if err := do(); err != nil {
		return err
	}
	c.Writes = append(c.Writes, fmt.Sprintf("%s %T %s", verb, obj, obj.GetName()))
	if crash {
		return Err
	}
	return nil
}
