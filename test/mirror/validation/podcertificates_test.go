package validation

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podCertificateRequests returns the seeds of PodCertificateRequests. They are made anew for each run, because kube-apiserver
// accepts a certificate only within five minutes of its first second. A new request has no status yet, so the certificates of
// some seeds are wrong.
func podCertificateRequests() ([]*certificatesv1.PodCertificateRequest, error) {
	ours := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	primes, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		return nil, err
	}
	var all []*certificatesv1.PodCertificateRequest
	for name, key := range map[string]crypto.Signer{"edwards": ours, "curve": curve, "primes": primes} {
		request, err := podCertificateRequest(name, key)
		if err != nil {
			return nil, err
		}
		denied := request.DeepCopy()
		denied.Name = name + "-denied"
		denied.Status.Conditions = []metav1.Condition{condition(certificatesv1.PodCertificateRequestConditionTypeDenied)}
		all = append(all, request, denied)
		for issue, change := range certificates {
			issued := request.DeepCopy()
			issued.Name = name + "-" + issue
			if issued.Status, err = issuedStatus(ours, change); err != nil {
				return nil, err
			}
			all = append(all, issued)
		}
	}
	slices.SortFunc(all, func(a, b *certificatesv1.PodCertificateRequest) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func podCertificateRequest(name string, key crypto.Signer) (*certificatesv1.PodCertificateRequest, error) {
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/signer", PodName: "p", PodUID: "a", ServiceAccountName: "s", ServiceAccountUID: "b",
			NodeName: "node", NodeUID: "c", MaxExpirationSeconds: new(int32(86400)), StubPKCS10Request: stub,
			UnverifiedUserAnnotations: map[string]string{"example.com/a": "b"},
		},
	}, err
}

// certificates are changes of a certificate. Two of them leave it valid: issued and named.
var certificates = map[string]func(*x509.Certificate){
	"issued": func(*x509.Certificate) {},
	"short":  func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(30 * time.Minute) },
	"long":   func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(48 * time.Hour) },
	"early":  func(c *x509.Certificate) { c.NotBefore = c.NotBefore.Add(-time.Hour) },
	"dots":   func(c *x509.Certificate) { c.DNSNames = []string{"a..b", ".a"} },
	"mail":   func(c *x509.Certificate) { c.EmailAddresses = []string{"nobody"} },
	"named":  func(c *x509.Certificate) { c.EmailAddresses = []string{"p@example.com"} },
}

// issuedStatus returns the status of a request with a certificate that is valid from now on, but for the change.
func issuedStatus(key ed25519.PrivateKey, change func(*x509.Certificate)) (certificatesv1.PodCertificateRequestStatus, error) {
	now := time.Now().UTC().Truncate(time.Second)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "p"}, DNSNames: []string{"p.example.com"},
		NotBefore: now, NotAfter: now.Add(2 * time.Hour)}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificatesv1.PodCertificateRequestStatus{}, err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certificatesv1.PodCertificateRequestStatus{
		Conditions:       []metav1.Condition{condition(certificatesv1.PodCertificateRequestConditionTypeIssued)},
		CertificateChain: string(block) + string(block),
		NotBefore:        new(metav1.NewTime(template.NotBefore)),
		BeginRefreshAt:   new(metav1.NewTime(template.NotBefore.Add(time.Hour))),
		NotAfter:         new(metav1.NewTime(template.NotAfter)),
	}, nil
}

func condition(name string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: "Because", Message: "m",
		LastTransitionTime: metav1.NewTime(time.Unix(1700000000, 0))}
}
