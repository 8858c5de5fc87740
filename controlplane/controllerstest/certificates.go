package controllerstest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodCertificateRequest returns a request for a certificate of a pod.
func (e Env) PodCertificateRequest(name string) *certificatesv1.PodCertificateRequest {
	e.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	e.Must(err)
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	e.Must(err)
	return &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: certificatesv1.PodCertificateRequestSpec{SignerName: "example.com/signer", PodName: "p", PodUID: "a",
			ServiceAccountName: "s", ServiceAccountUID: "b", NodeName: "node", NodeUID: "c", StubPKCS10Request: stub}}
}
