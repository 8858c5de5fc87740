package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"flyball.dev/controllers/internal/cleaner"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/manager"
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
		Complete(cleaner.New(mgr.GetClient(), podDeadline))
}

// podDeadline returns the time at which the request for the certificate of a pod is deleted.
//
//upstream:pkg/controller/certificates/cleaner.PCRCleanerController.handle
func podDeadline(request *certificatesv1.PodCertificateRequest) (at time.Time, ok bool) {
	return request.CreationTimestamp.Add(podRequestLifetime), true
}
