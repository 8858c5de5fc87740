package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
)

func TestResult(t *testing.T) {
	var none *reconcile.Result
	for _, test := range []struct {
		result *reconcile.Result
		want   bool
	}{
		{none, true},
		{&reconcile.Result{}, true},
		{&reconcile.Result{RequeueAfter: time.Second}, false},
		{&reconcile.Result{Priority: new(0)}, false},
	} {
		if got := test.result.IsZero(); got != test.want {
			t.Errorf("%+v: %v", test.result, got)
		}
	}
}

func TestTerminalError(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("wrapped: %w", reconcile.TerminalError(cause))
	if !errors.Is(err, reconcile.TerminalError(nil)) || !errors.Is(err, cause) {
		t.Error("a terminal error is not known for what it is")
	}
	if errors.Is(cause, reconcile.TerminalError(nil)) {
		t.Error("every error is terminal")
	}
	if got := err.Error(); got != "wrapped: terminal error: cause" {
		t.Errorf("got %q", got)
	}
	if got := reconcile.TerminalError(nil).Error(); got != "nil terminal error" {
		t.Errorf("got %q", got)
	}
}

// reader returns the same error from every read.
type reader struct {
	client.Client
	err error
}

func (r reader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetName(key.Name)
	return r.err
}

type podReconciler struct{ got *corev1.Pod }

func (r *podReconciler) Reconcile(_ context.Context, pod *corev1.Pod) (reconcile.Result, error) {
	r.got = pod
	return reconcile.Result{RequeueAfter: time.Hour}, nil
}

func TestAsReconciler(t *testing.T) {
	req := reconcile.Request{NamespacedName: types.NamespacedName{Name: "pod"}}
	refused := errors.New("refused")
	for _, test := range []struct {
		read, want error
		called     bool
	}{
		{nil, nil, true},
		{apierrors.NewNotFound(schema.GroupResource{}, "pod"), nil, false},
		{refused, refused, false},
	} {
		inner := &podReconciler{}
		result, err := reconcile.AsReconciler(client.Client(reader{err: test.read}), inner).Reconcile(t.Context(), req)
		if err != test.want || (inner.got != nil) != test.called || (result.RequeueAfter != 0) != test.called {
			t.Errorf("%v: got %+v, %v, %v", test.read, result, err, inner.got)
		}
	}
}
