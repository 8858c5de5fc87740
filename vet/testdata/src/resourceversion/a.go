package resourceversion

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

func compare(a, b *corev1.Pod) bool {
	n, _ := strconv.Atoi(a.ResourceVersion)                   // want `a resource version is not a number`
	m, _ := strconv.ParseUint(b.GetResourceVersion(), 10, 64) // want `a resource version is not a number`
	version := a.GetResourceVersion()
	k, _ := strconv.ParseInt(version, 10, 64) // want `a resource version is not a number`
	generation, _ := strconv.Atoi("12")
	return n > generation && m > uint64(k) || a.ResourceVersion > b.ResourceVersion // want `not ordered as strings`
}

func equal(a, b *corev1.Pod) bool {
	return a.ResourceVersion == b.ResourceVersion && a.Generation > b.Generation
}

type Reconciler struct{}

func (Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, nil
}
