package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	certsv1 "flyball.dev/examples/certificates/api/v1"
	"flyball.dev/examples/internal/exampletest"
)

// newCertificate returns a Certificate.
func newCertificate() *certsv1.Certificate {
	return &certsv1.Certificate{ObjectMeta: exampletest.Named("web"), Spec: certsv1.CertificateSpec{
		DNSNames: []string{"web.example.com"}, SecretName: "web-tls", Duration: metav1.Duration{Duration: time.Hour},
	}}
}

// TestNameTaken checks that a name of a Secret that is taken is in the status, and no longer when it is free.
func TestNameTaken(t *testing.T) {
	e, _ := certificates(t)
	exampletest.NameTaken(t, e, certsv1.ConditionReady, &corev1.Secret{ObjectMeta: exampletest.Named("web-tls")}, newCertificate())
}

// TestWriteDenied checks that a write that the API server refuses is in the status, and no longer when it
// has succeeded.
func TestWriteDenied(t *testing.T) {
	e, _ := certificates(t)
	exampletest.WriteDenied(t, e, "secrets", certsv1.ConditionReady, "IssueFailed", newCertificate())
}
