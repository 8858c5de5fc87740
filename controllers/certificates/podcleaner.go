package certificates

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// podRequestLifetime is the time for which requests for certificates of pods are kept.
//
//upstream:cmd/kube-controller-manager/app.newPodCertificateRequestCleanerController
const podRequestLifetime = 15 * time.Minute

// AddPodCleanerToManager adds the controller that deletes old requests for certificates of pods.
//
//upstream:pkg/controller/certificates/cleaner.NewPCRCleanerController
func AddPodCleanerToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("podcertificaterequest-cleaner").
		For(&certificatesv1.PodCertificateRequest{}).
		Complete(&podCleaner{mgr.GetClient()})
}

// podCleaner deletes requests for certificates of pods.
type podCleaner struct{ client client.Client }

// Reconcile deletes one request when it is too old.
//
//upstream:pkg/controller/certificates/cleaner.PCRCleanerController.handle
func (c *podCleaner) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	request := &certificatesv1.PodCertificateRequest{}
	if err := c.client.Get(ctx, req.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if left := time.Until(request.CreationTimestamp.Add(podRequestLifetime)); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(c.client.Delete(ctx, request, client.Preconditions{UID: &request.UID}))
}
