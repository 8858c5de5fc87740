package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kerrors "k8s.io/apimachinery/pkg/util/errors"

	"flyball.dev/ctrl/reconcile"
)

func TestOutcomeOf(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	conflict := apierrors.NewConflict(pods, "p", errors.New("old"))
	wrapped := fmt.Errorf("update status: %w", conflict)
	broken := errors.New("broken")
	interrupted := fmt.Errorf("list: %w", context.Canceled)
	for name, c := range map[string]struct {
		result   reconcile.Result
		err      error
		tries    int
		stopping bool
		want     outcome
	}{
		"success": {want: outcome{result: "success", resetBackoff: true}},
		//lint:ignore SA1019 reconcilers still use it
		"requeue":       {result: reconcile.Result{Requeue: true}, want: outcome{result: "requeue", requeue: true, rateLimited: true}},
		"requeue after": {result: reconcile.Result{RequeueAfter: 3}, want: outcome{result: "requeue_after", resetBackoff: true, requeue: true, after: 3}},
		//lint:ignore SA1019 reconcilers still use it
		"after and soon": {result: reconcile.Result{Requeue: true, RequeueAfter: 3}, want: outcome{result: "requeue_after", resetBackoff: true, requeue: true, after: 3}},
		"error":          {err: broken, want: outcome{result: "error", requeue: true, rateLimited: true, failed: true}},
		"an error comes before the result": {
			result: reconcile.Result{RequeueAfter: time.Hour}, err: broken,
			want: outcome{result: "error", requeue: true, rateLimited: true, failed: true},
		},
		"terminal":                          {err: reconcile.TerminalError(broken), want: outcome{result: "error", resetBackoff: true, failed: true, terminal: true}},
		"a terminal conflict":               {err: reconcile.TerminalError(conflict), want: outcome{result: "error", resetBackoff: true, failed: true, terminal: true}},
		"conflict":                          {err: conflict, want: outcome{result: "requeue", requeue: true, rateLimited: true, conflict: true, verbose: true}},
		"a wrapped conflict":                {err: wrapped, tries: 4, want: outcome{result: "requeue", requeue: true, rateLimited: true, conflict: true, verbose: true}},
		"the last conflict that is a retry": {err: wrapped, tries: 9, want: outcome{result: "requeue", requeue: true, rateLimited: true, conflict: true, verbose: true}},
		"the conflict after it":             {err: wrapped, tries: 10, want: outcome{result: "error", requeue: true, rateLimited: true, conflict: true, failed: true}},
		"many conflicts": {
			err:  kerrors.NewAggregate([]error{conflict, errors.Join(wrapped, nil)}),
			want: outcome{result: "requeue", requeue: true, rateLimited: true, conflict: true, verbose: true},
		},
		"a conflict and more": {err: errors.Join(conflict, broken), want: outcome{result: "error", requeue: true, rateLimited: true, failed: true}},
		"another status":      {err: apierrors.NewNotFound(pods, "p"), want: outcome{result: "error", requeue: true, rateLimited: true, failed: true}},
		"cancelled": {
			err: interrupted, stopping: true,
			want: outcome{result: "error", requeue: true, rateLimited: true, failed: true, verbose: true},
		},
		"cancelled by someone else": {err: interrupted, want: outcome{result: "error", requeue: true, rateLimited: true, failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(c.result, c.err, c.tries, c.stopping); got != c.want {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}
