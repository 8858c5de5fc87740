package controller

import (
	"context"
	"testing"
	"testing/synctest"

	"flyball.dev/ctrl/reconcile"
)

// TestInTurn: a worker takes a request when the last one has ended its turn, and not when that has written.
func TestInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decide, write := make(chan struct{}), make(chan struct{})
		r := start(t, TypedOptions[string]{MaxConcurrentReconciles: 3, InTurn: true}, func(ctx context.Context, req string) (reconcile.Result, error) {
			switch <-decide; req {
			case "returns":
				return reconcile.Result{}, nil
			case "panics":
				panic("no decision")
			}
			EndTurn(ctx)
			EndTurn(ctx)
			<-write
			return reconcile.Result{}, nil
		})
		for _, req := range []string{"first", "second", "returns", "panics", "last"} {
			r.queue.Add(req)
		}
		for _, want := range []string{"first", "second", "returns", "panics", "last"} {
			if got := <-r.requests; got != want {
				t.Errorf("%s is taken, not %s", got, want)
			}
			synctest.Wait()
			select {
			case got := <-r.requests:
				t.Errorf("%s is taken before the end of the turn of %s", got, want)
			default:
			}
			decide <- struct{}{}
		}
		for range 3 {
			write <- struct{}{}
		}
		r.stop()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
	})
}

// TestEndTurnOutsideOfTurns: EndTurn does nothing without InTurn, and for another context.
func TestEndTurnOutsideOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		EndTurn(t.Context())
		r := start(t, TypedOptions[string]{}, func(ctx context.Context, _ string) (reconcile.Result, error) {
			EndTurn(ctx)
			return reconcile.Result{}, nil
		})
		r.queue.Add("a")
		<-r.requests
		r.queue.Add("b")
		<-r.requests
		r.stop()
		<-r.done
	})
}
