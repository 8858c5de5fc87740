package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"flyball.dev/controllers/internal/cleaner"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/manager"
)

// The time for which requests are kept that are issued, denied or failed, and requests that wait for an approval
// or a signature.
const (
	//upstream:pkg/controller/certificates/cleaner.approvedExpiration
	//upstream:pkg/controller/certificates/cleaner.deniedExpiration
	doneLifetime = time.Hour
	//upstream:pkg/controller/certificates/cleaner.pendingExpiration
	pendingLifetime = 24 * time.Hour
)

// AddCleanerToManager adds the controller that deletes old requests.
//
//upstream:pkg/controller/certificates/cleaner.NewCSRCleanerController
func AddCleanerToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("certificatesigningrequest-cleaner").
		For(&certificatesv1.CertificateSigningRequest{}).
		Complete(cleaner.New(mgr.GetClient(), deadline))
}

// deadline returns the time at which a request is deleted, or false for never.
//
//upstream:pkg/controller/certificates/cleaner.CSRCleanerController.handle
//upstream:pkg/controller/certificates/cleaner.isIssuedPastDeadline
//upstream:pkg/controller/certificates/cleaner.isDeniedPastDeadline
//upstream:pkg/controller/certificates/cleaner.isFailedPastDeadline
//upstream:pkg/controller/certificates/cleaner.isPendingPastDeadline
//upstream:pkg/controller/certificates/cleaner.isIssuedExpired
//upstream:pkg/controller/certificates/cleaner.isApprovedUnissuedPastDeadline
func deadline(csr *certificatesv1.CertificateSigningRequest) (earliest time.Time, ok bool) {
	add := func(t time.Time, lifetime time.Duration) {
		if t = t.Add(lifetime); !ok || t.Before(earliest) {
			earliest, ok = t, true
		}
	}
	if len(csr.Status.Conditions) == 0 {
		add(csr.CreationTimestamp.Time, pendingLifetime)
	}
	issued := len(csr.Status.Certificate) > 0
	for _, condition := range csr.Status.Conditions {
		updated := condition.LastUpdateTime
		switch {
		case condition.Type == certificatesv1.CertificateApproved && issued:
			if expiry, ok := expiry(csr.Status.Certificate); ok {
				add(expiry, 0)
			}
			if !updated.IsZero() {
				add(updated.Time, doneLifetime)
			}
		case updated.IsZero():
		case condition.Type == certificatesv1.CertificateApproved:
			add(updated.Time, pendingLifetime)
		case condition.Type == certificatesv1.CertificateDenied, condition.Type == certificatesv1.CertificateFailed:
			add(updated.Time, doneLifetime)
		}
	}
	return earliest, ok
}

// expiry returns the time at which a certificate in PEM expires.
//
//upstream:pkg/controller/certificates/cleaner.isExpired
func expiry(text []byte) (time.Time, bool) {
	block, _ := pem.Decode(text)
	if block == nil {
		return time.Time{}, false
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return certificate.NotAfter, true
}
