package builtin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// signingRequest returns the manifest of a valid request.
func signingRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "ann"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf(`{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: "a b:c"}, spec: {request: %s, signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}}`,
		base64.StdEncoding.EncodeToString(text))
}

func TestCertificateSigningRequestConditions(t *testing.T) {
	base := signingRequest(t)
	d := describeKindOf(t, read(t, base))
	approval := d.of.FieldByName("Parts").MapIndex(valueOf("approval"))
	for name, tc := range map[string]struct {
		old, patch string
		part       bool // the subresource approval instead of status
		want       []string
	}{
		"approved by approval":  {patch: `status: {conditions: [{type: Approved, status: "True"}]}`, part: true},
		"approved by status":    {patch: `status: {conditions: [{type: Approved, status: "True"}]}`, want: []string{`status.conditions: Forbidden: updates may not add a condition of type "Approved"`}},
		"failed by status":      {patch: `status: {conditions: [{type: Failed, status: "True"}]}`},
		"unapproved":            {old: `status: {conditions: [{type: Approved, status: "True"}]}`, patch: `status: null`, part: true, want: []string{`status.conditions: Forbidden: updates may not remove a condition of type "Approved"`}},
		"approved with a false": {patch: `status: {conditions: [{type: Approved, status: "False"}]}`, part: true, want: []string{`status.conditions[0].status: Unsupported value: "False": supported values: "True"`}},
		"both": {patch: `status: {conditions: [{type: Approved, status: "True"}, {type: Denied, status: "True"}]}`, part: true,
			want: []string{`status.conditions: Invalid value: "{conditions[{\"type\": \"Approved\"}], conditions[{\"type\": \"Denied\"}]}": must specify at most one of: …`}},
		"no certificate": {patch: `status: {certificate: YQ==}`, want: []string{`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`}},
		"another certificate": {old: `status: {certificate: YQ==}`, patch: `status: {certificate: Yg==}`, want: []string{
			"status.certificate: Forbidden: updates may not modify existing certificate content",
			`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`}},
	} {
		t.Run(name, func(t *testing.T) {
			was := base
			if tc.old != "" {
				was = patched(t, base, tc.old)
			}
			old, obj := read(t, was), read(t, patched(t, was, tc.patch))
			if !tc.part {
				d.call("PrepareStatus", context.Background(), obj, old)
				compareMessages(t, tc.want, messages(d.errors("ValidateStatus", obj, old)))
				return
			}
			part := described{approval}
			part.call("Prepare", context.Background(), obj, old)
			compareMessages(t, tc.want, messages(part.errors("Validate", obj, old)))
		})
	}
}

func TestCertificateSigningRequestOwner(t *testing.T) {
	d := describeKindOf(t, &certificatesv1.CertificateSigningRequest{})
	ctx := request.WithUser(context.Background(), &user.DefaultInfo{Name: "ann", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}})
	r := read(t, signingRequest(t)).(*certificatesv1.CertificateSigningRequest)
	r.Spec.Username, r.Spec.Groups = "root", []string{"system:masters"}
	d.call("Prepare", ctx, r, nil)
	if s := r.Spec; s.Username != "ann" || s.UID != "1" || len(s.Groups) != 1 || s.Groups[0] != "dev" || len(s.Extra["k"]) != 1 {
		t.Errorf("the request is of %+v", s)
	}
	now := r.DeepCopy()
	now.Spec.Username = "bob"
	d.call("Prepare", ctx, now, r)
	if now.Spec.Username != "ann" {
		t.Errorf("an update made it a request of %s", now.Spec.Username)
	}
	now.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue}}
	d.call("PrepareStatus", ctx, now, r)
	if c := now.Status.Conditions[0]; c.LastUpdateTime.IsZero() || c.LastTransitionTime.IsZero() {
		t.Errorf("a condition without times: %+v", c)
	}
}

func TestPodCertificateRequests(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	base := `{apiVersion: certificates.k8s.io/v1, kind: PodCertificateRequest, metadata: {name: r}, spec: {signerName: example.com/signer, podName: p, podUID: a, serviceAccountName: s, serviceAccountUID: b, nodeName: node, nodeUID: c, stubPKCS10Request: ` + base64.StdEncoding.EncodeToString(stub) + `}}`
	invalidWhen(t, base, map[string]change{
		"lifetime":   {`spec: {maxExpirationSeconds: 10}`, []string{"spec.maxExpirationSeconds: Invalid value: 10: must be in the range [3600, 7862400]"}},
		"kubernetes": {`spec: {signerName: kubernetes.io/x, maxExpirationSeconds: 90000}`, []string{"spec.maxExpirationSeconds: Invalid value: 90000: must be in the range [3600, 86400]"}},
		"owner":      {`spec: {podUID: ""}`, []string{`spec.podUID: Invalid value: "": must not be empty`}},
		"stub":       {`spec: {stubPKCS10Request: YQ==}`, []string{"spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"}},
	})
	old := read(t, base).(*certificatesv1.PodCertificateRequest)
	old.ResourceVersion = "1"
	d := describeKindOf(t, old)
	now := metav1.Now().Rfc3339Copy()
	issue := func(public any, hours int) *certificatesv1.PodCertificateRequest {
		end := metav1.NewTime(now.Add(time.Duration(hours) * time.Hour))
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Time, NotAfter: end.Time}, &x509.Certificate{}, public, key)
		if err != nil {
			t.Fatal(err)
		}
		r := old.DeepCopy()
		refresh := metav1.NewTime(now.Add(30 * time.Minute))
		r.Status = certificatesv1.PodCertificateRequestStatus{
			Conditions:       []metav1.Condition{{Type: "Issued", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: now}},
			CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
			NotBefore:        &now, NotAfter: &end, BeginRefreshAt: &refresh,
		}
		return r
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	compareMessages(t, nil, messages(d.errors("ValidateStatus", issue(&key.PublicKey, 2), old)))
	compareMessages(t, []string{"status.certificateChain: Invalid value: …"}, messages(d.errors("ValidateStatus", issue(&other.PublicKey, 2), old)))
	compareMessages(t, []string{`status.certificateChain: Invalid value: 90000000000000: leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)`}, messages(d.errors("ValidateStatus", issue(&key.PublicKey, 25), old)))
	done := issue(&key.PublicKey, 2)
	changed := done.DeepCopy()
	changed.Status.CertificateChain = "x"
	compareMessages(t, []string{"status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"}, messages(d.errors("ValidateStatus", changed, done)))
}
