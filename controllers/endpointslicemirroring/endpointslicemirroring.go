// Package endpointslicemirroring mirrors the Endpoints of Services without a selector, which are
// created by users, in EndpointSlices, for clients that read only those.
//
//lint:file-ignore SA1019 The controller reads the deprecated kind Endpoints.
package endpointslicemirroring

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/controllers/internal/events"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// managedBy is the value of the label managed-by of the slices.
//
//upstream:pkg/controller/endpointslicemirroring.ControllerName
const managedBy = "endpointslicemirroring-controller.k8s.io"

// AddToManager adds the controller.
//
//upstream:pkg/controller/endpointslicemirroring.NewController
func AddToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("endpointslicemirroring").
		For(&corev1.Endpoints{}).
		Watches(&corev1.Service{}, &handler.EnqueueRequestForObject{}).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(endpoints.OfSlice(managedBy))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(&reconciler{mgr.GetClient(), events.RecorderFor(mgr, "endpoint-slice-mirroring-controller")})
}

// reconciler reconciles the EndpointSlices that mirror Endpoints.
type reconciler struct {
	client client.Client
	events record.EventRecorder
}

// Reconcile updates the mirror of the Endpoints of one Service, or deletes it.
//
//upstream:pkg/controller/endpointslicemirroring.Controller.syncEndpoints
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	e, err := r.mirrored(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	existing, err := endpoints.Existing(ctx, r.client, req.NamespacedName, managedBy)
	if err != nil {
		return reconcile.Result{}, err
	}
	changes := endpoints.Changes{Delete: existing}
	if e != nil {
		m := mirrorOf(e)
		m.report(r.events)
		changes = m.plan(existing)
	}
	return reconcile.Result{}, changes.Apply(ctx, r.client, "Endpoints "+req.String())
}

// mirrored returns the Endpoints with a name, or nil if they do not exist or are not to be mirrored.
//
//upstream:pkg/controller/endpointslicemirroring.Controller.syncEndpoints
//upstream:pkg/controller/endpointslicemirroring.Controller.shouldMirror
func (r *reconciler) mirrored(ctx context.Context, name client.ObjectKey) (*corev1.Endpoints, error) {
	e, svc := &corev1.Endpoints{}, &corev1.Service{}
	if err := r.client.Get(ctx, name, e); err != nil || skipped(e) {
		return nil, client.IgnoreNotFound(err)
	}
	err := r.client.Get(ctx, name, svc)
	if apierrors.IsNotFound(err) || err == nil && svc.Spec.Selector != nil {
		return nil, nil
	}
	return e, err
}

// skipped reports whether Endpoints ask not to be mirrored, or are a lock of a leader election.
//
//upstream:pkg/controller/endpointslicemirroring.skipMirror
//upstream:pkg/controller/endpointslicemirroring.hasLeaderElection
func skipped(e *corev1.Endpoints) bool {
	_, isLock := e.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	return isLock || e.Labels[discoveryv1.LabelSkipMirror] == "true"
}
