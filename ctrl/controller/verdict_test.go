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

func TestJudge(t *testing.T) {
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
		want     verdict
	}{
		"success":        {want: verdict{result: "success", forget: true}},
		"requeue":        {result: reconcile.Result{Requeue: true}, want: verdict{result: "requeue", again: true, limited: true}},
		"requeue after":  {result: reconcile.Result{RequeueAfter: 3}, want: verdict{result: "requeue_after", forget: true, again: true, after: 3}},
		"after and soon": {result: reconcile.Result{Requeue: true, RequeueAfter: 3}, want: verdict{result: "requeue_after", forget: true, again: true, after: 3}},
		"error":          {err: broken, want: verdict{result: "error", again: true, limited: true, failed: true}},
		"an error comes before the result": {
			result: reconcile.Result{RequeueAfter: time.Hour}, err: broken,
			want: verdict{result: "error", again: true, limited: true, failed: true},
		},
		"terminal":            {err: reconcile.TerminalError(broken), want: verdict{result: "error", forget: true, failed: true, terminal: true}},
		"a terminal conflict": {err: reconcile.TerminalError(conflict), want: verdict{result: "error", forget: true, failed: true, terminal: true}},
		"conflict":            {err: conflict, want: verdict{result: "requeue", again: true, limited: true, conflict: true, quiet: true}},
		"a wrapped conflict":  {err: wrapped, tries: 4, want: verdict{result: "requeue", again: true, limited: true, conflict: true, quiet: true}},
		"the sixth conflict":  {err: wrapped, tries: 5, want: verdict{result: "error", again: true, limited: true, conflict: true, failed: true}},
		"many conflicts": {
			err:  kerrors.NewAggregate([]error{conflict, errors.Join(wrapped, nil)}),
			want: verdict{result: "requeue", again: true, limited: true, conflict: true, quiet: true},
		},
		"a conflict and more": {err: errors.Join(conflict, broken), want: verdict{result: "error", again: true, limited: true, failed: true}},
		"another status":      {err: apierrors.NewNotFound(pods, "p"), want: verdict{result: "error", again: true, limited: true, failed: true}},
		"cancelled": {
			err: interrupted, stopping: true,
			want: verdict{result: "error", again: true, limited: true, failed: true, quiet: true},
		},
		"cancelled by someone else": {err: interrupted, want: verdict{result: "error", again: true, limited: true, failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(c.result, c.err, c.tries, c.stopping); got != c.want {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}
