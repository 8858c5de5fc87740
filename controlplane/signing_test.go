package controlplane_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
)

func TestCertificateSigning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := plane.Stop(); err != nil {
				t.Error(err)
			}
		}()
		admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
		requests := admin.CertificatesV1().CertificateSigningRequests()
		create := func(name, signer string, subject pkix.Name, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
			t.Helper()
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
			if err != nil {
				t.Fatal(err)
			}
			return controlplanetest.Must[*certificatesv1.CertificateSigningRequest](t)(requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Usages: usages, ExpirationSeconds: new(int32(3600)),
					Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})},
			}, metav1.CreateOptions{}))
		}
		approved := func(csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
			csr = csr.DeepCopy()
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved", Status: corev1.ConditionTrue, Reason: "Test", Message: "m"}}
			return csr
		}
		get := func(name string) *certificatesv1.CertificateSigningRequest {
			synctest.Wait()
			return controlplanetest.Must[*certificatesv1.CertificateSigningRequest](t)(requests.Get(ctx, name, metav1.GetOptions{}))
		}
		const client = certificatesv1.KubeAPIServerClientSignerName
		csr := create("good", client, pkix.Name{CommonName: "ann", Organization: []string{"staff"}}, "client auth", "digital signature")
		if got := get("good"); len(got.Status.Certificate) > 0 {
			t.Error("signed without approval")
		}

		// Who may approve depends on the signer.
		controlplanetest.GrantCluster(t, admin, "approver", "bob", controlplanetest.PolicyRule("get,update", "certificates.k8s.io", "certificatesigningrequests,certificatesigningrequests/approval,certificatesigningrequests/status"))
		bob := controlplanetest.As(t, plane, "bob").CertificatesV1().CertificateSigningRequests()
		_, err = bob.UpdateApproval(ctx, csr.Name, approved(csr), metav1.UpdateOptions{})
		controlplanetest.Refused(t, err, `certificatesigningrequests.certificates.k8s.io "good" is forbidden: user not permitted to approve requests with signerName "`+client+`"`)
		failed := csr.DeepCopy()
		failed.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Failed", Status: corev1.ConditionTrue, Reason: "Test"}}
		_, err = bob.UpdateStatus(ctx, failed, metav1.UpdateOptions{})
		controlplanetest.Refused(t, err, `certificatesigningrequests.certificates.k8s.io "good" is forbidden: user not permitted to sign requests with signerName "`+client+`"`)
		controlplanetest.GrantCluster(t, admin, "signer", "bob", controlplanetest.PolicyRule("approve", "certificates.k8s.io", "signers", "kubernetes.io/*"))
		controlplanetest.Must[*certificatesv1.CertificateSigningRequest](t)(bob.UpdateApproval(ctx, csr.Name, approved(csr), metav1.UpdateOptions{}))

		block, _ := pem.Decode(get("good").Status.Certificate)
		if block == nil {
			t.Fatal("not signed after approval")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if certificate.Subject.CommonName != "ann" || !slices.Equal(certificate.Subject.Organization, []string{"staff"}) ||
			certificate.IsCA || time.Until(certificate.NotAfter).Round(time.Minute) != time.Hour ||
			!slices.Equal(certificate.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
			t.Errorf("the certificate is for %v until %v", certificate.Subject, certificate.NotAfter)
		}

		for name, csr := range map[string]*certificatesv1.CertificateSigningRequest{
			"usage":  create("usage", client, pkix.Name{CommonName: "x"}, "client auth", "server auth"),
			"node":   create("node", certificatesv1.KubeAPIServerClientKubeletSignerName, pkix.Name{CommonName: "x", Organization: []string{"system:nodes"}}, "client auth"),
			"no SAN": create("san", certificatesv1.KubeletServingSignerName, pkix.Name{CommonName: "system:node:x", Organization: []string{"system:nodes"}}, "server auth"),
		} {
			controlplanetest.Must[*certificatesv1.CertificateSigningRequest](t)(requests.UpdateApproval(ctx, csr.Name, approved(csr), metav1.UpdateOptions{}))
			if got := get(csr.Name); len(got.Status.Certificate) > 0 || !slices.ContainsFunc(got.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
				return c.Type == certificatesv1.CertificateFailed && c.Reason == "SignerValidationFailure"
			}) {
				t.Errorf("%s: %+v", name, got.Status)
			}
		}
		other := create("other", "example.com/signer", pkix.Name{CommonName: "x"}, "client auth")
		controlplanetest.Must[*certificatesv1.CertificateSigningRequest](t)(requests.UpdateApproval(ctx, other.Name, approved(other), metav1.UpdateOptions{}))
		if got := get("other"); len(got.Status.Certificate) > 0 || len(got.Status.Conditions) != 1 {
			t.Errorf("the request of another signer: %+v", got.Status)
		}
	})
}
