package controller

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	certsv1 "flyball.dev/examples/certificates/api/v1"
)

// renewalTime returns when a certificate is to be renewed.
func renewalTime(spec *certsv1.CertificateSpec, certificate *x509.Certificate) time.Time {
	before := spec.Duration.Duration / 3
	if spec.RenewBefore != nil {
		before = spec.RenewBefore.Duration
	}
	return certificate.NotAfter.Add(-before)
}

// inspect returns the certificate in a Secret, which may be nil, or nil if it has none that can be
// used, and says why it must be replaced at that time, or "" if it need not. It asks the certificate
// and not the status, because that is what those who use the Secret see.
func inspect(spec *certsv1.CertificateSpec, secret *corev1.Secret, now time.Time) (have *x509.Certificate, why string) {
	if secret == nil {
		return nil, "there is no Secret"
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, "the Secret has no valid pair of certificate and key"
	}
	have = pair.Leaf
	wanted := slices.Sorted(slices.Values(spec.DNSNames))
	names := slices.Sorted(slices.Values(have.DNSNames))
	lifetime, duration := have.NotAfter.Sub(have.NotBefore), spec.Duration.Truncate(time.Second)
	switch {
	case !slices.Equal(wanted, names):
		return nil, fmt.Sprintf("it is for %v and not for %v", names, wanted)
	case !now.Before(have.NotAfter):
		return nil, "it has expired"
	case lifetime != duration:
		return have, fmt.Sprintf("it is valid for %v and not for %v", lifetime, duration)
	case !now.Before(renewalTime(spec, have)):
		return have, "it ends at " + have.NotAfter.UTC().Format(time.RFC3339)
	}
	return have, ""
}
