package validation

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podCertificateRequests returns the seeds of PodCertificateRequests. They are made anew for each run, because kube-apiserver
// accepts a certificate only within five minutes of its first second.
func podCertificateRequests() ([]*certificatesv1.PodCertificateRequest, error) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, err
	}
	request := func(name string) *certificatesv1.PodCertificateRequest {
		return &certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: "example.com/signer", PodName: "p", PodUID: "a", ServiceAccountName: "s", ServiceAccountUID: "b",
				NodeName: "node", NodeUID: "c", MaxExpirationSeconds: new(int32(86400)), StubPKCS10Request: stub,
				UnverifiedUserAnnotations: map[string]string{"example.com/a": "b"},
			},
		}
	}
	denied := request("denied")
	denied.Status.Conditions = []metav1.Condition{condition(certificatesv1.PodCertificateRequestConditionTypeDenied)}
	issued := request("issued")
	if issued.Status, err = issuedStatus(key); err != nil {
		return nil, err
	}
	return []*certificatesv1.PodCertificateRequest{request("r"), denied, issued}, nil
}

// issuedStatus returns the status of a request with a certificate that is valid from now on.
func issuedStatus(key ed25519.PrivateKey) (certificatesv1.PodCertificateRequestStatus, error) {
	now := time.Now().UTC().Truncate(time.Second)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "p"}, DNSNames: []string{"p.example.com"},
		NotBefore: now, NotAfter: now.Add(2 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificatesv1.PodCertificateRequestStatus{}, err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certificatesv1.PodCertificateRequestStatus{
		Conditions:       []metav1.Condition{condition(certificatesv1.PodCertificateRequestConditionTypeIssued)},
		CertificateChain: string(block) + string(block),
		NotBefore:        new(metav1.NewTime(now)),
		BeginRefreshAt:   new(metav1.NewTime(now.Add(time.Hour))),
		NotAfter:         new(metav1.NewTime(now.Add(2 * time.Hour))),
	}, nil
}

func condition(name string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: "Because", Message: "m",
		LastTransitionTime: metav1.NewTime(time.Unix(1700000000, 0))}
}
