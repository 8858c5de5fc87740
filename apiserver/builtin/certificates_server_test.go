package builtin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCertificateApproval(t *testing.T) {
	ctx, client := serve(t)
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))
	requests := client.CertificatesV1().CertificateSigningRequests()
	r := must[*certificatesv1.CertificateSigningRequest](t)(requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "ann"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: "example.com/signer", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, Username: "mallory",
		},
	}, metav1.CreateOptions{}))
	if r.Spec.Username == "mallory" || r.Spec.Username == "" {
		t.Errorf("the request is of %q", r.Spec.Username)
	}
	approved := certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}
	r.Status.Conditions = append(r.Status.Conditions, approved)
	_, err := requests.UpdateStatus(ctx, r, metav1.UpdateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, `status.conditions: Forbidden: updates may not add a condition of type "Approved"`)
	r.Spec.SignerName = "example.com/other"
	r.Status.Certificate = []byte("x")
	r = must[*certificatesv1.CertificateSigningRequest](t)(requests.UpdateApproval(ctx, "ann", r, metav1.UpdateOptions{}))
	if r.Spec.SignerName != "example.com/signer" || r.Status.Certificate != nil || len(r.Status.Conditions) != 1 || r.Status.Conditions[0].LastUpdateTime.IsZero() {
		t.Errorf("approved %+v", r)
	}
	list := must[*certificatesv1.CertificateSigningRequestList](t)(requests.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=example.com/signer"}))
	if len(list.Items) != 1 {
		t.Errorf("selected %d requests", len(list.Items))
	}
}
