package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
)

// overload gives up when the server is too busy, for longer than client-go repeats a request.
func overload(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	result, err := quiet(ctx, e, w)
	if apierrors.IsTooManyRequests(err) && !e.right {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	return result, err
}

// assumedEffect takes for granted that the server goes on with a request after a timeout.
func assumedEffect(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	result, err := quiet(ctx, e, w)
	if apierrors.IsTimeout(err) && !e.right {
		return ctrl.Result{}, nil
	}
	return result, err
}

// brokenConnection takes for granted that the server has not got a request if the connection breaks, and makes another part
// instead.
func brokenConnection(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	result, err := quiet(ctx, e, w)
	if utilnet.IsConnectionReset(err) && !e.right {
		return ctrl.Result{}, ensurePart(ctx, e, w, w.Name+"-again")
	}
	return result, err
}

// firstLook trusts what it finds when it has started: the last process has done the work. Its only write after the begin is
// the one of the size, so only a crash before this write leaves anything to do.
func firstLook(ctx context.Context, e *env, w *Widget) (ctrl.Result, error) {
	found := &corev1.ConfigMap{}
	err := e.Get(ctx, client.ObjectKeyFromObject(w), found)
	isFirst := e.memory[w.Name] == ""
	e.memory[w.Name] = "seen"
	if err == nil && metav1.IsControlledBy(found, w) && isFirst && !e.right {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, ensurePart(ctx, e, w, w.Name)
}
