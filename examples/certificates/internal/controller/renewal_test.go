package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	certsv1 "flyball.dev/examples/certificates/api/v1"
	"flyball.dev/examples/certificates/internal/issuer"
)

func TestInspect(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ca, err := issuer.New(start)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := ca.Issue([]string{"a.example.com", "b.example.com"}, start, start.Add(90*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey, err := ca.Issue([]string{"a.example.com"}, start, start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	secret := func(certificate, key []byte) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}}
	}
	good := secret(certificate, key)
	names := []string{"b.example.com", "a.example.com"}
	hours := func(n time.Duration) metav1.Duration { return metav1.Duration{Duration: n * time.Hour} }
	for _, tt := range []struct {
		name     string
		secret   *corev1.Secret
		spec     certsv1.CertificateSpec
		after    time.Duration // hours since the start
		wantHave bool
		wantWhy  string
	}{
		{"no secret", nil, certsv1.CertificateSpec{DNSNames: names, Duration: hours(90)}, 0, false, "there is no Secret"},
		{"empty", secret(nil, nil), certsv1.CertificateSpec{DNSNames: names, Duration: hours(90)}, 0, false,
			"the Secret has no valid pair of certificate and key"},
		{"another key", secret(certificate, otherKey), certsv1.CertificateSpec{DNSNames: names, Duration: hours(90)}, 0, false,
			"the Secret has no valid pair of certificate and key"},
		{"new", good, certsv1.CertificateSpec{DNSNames: names, Duration: hours(90)}, 0, true, ""},
		{"before the last third", good, certsv1.CertificateSpec{DNSNames: names, Duration: hours(90)}, 59, true, ""},
		{"in the last third", good, certsv1.CertificateSpec{DNSNames: names, Duration: hours(90)}, 60, true, "it ends at 2026-01-04T18:00:00Z"},
		{"before renewBefore", good, certsv1.CertificateSpec{DNSNames: names, Duration: hours(90), RenewBefore: new(hours(10))}, 79, true, ""},
		{"in renewBefore", good, certsv1.CertificateSpec{DNSNames: names, Duration: hours(90), RenewBefore: new(hours(10))}, 80, true,
			"it ends at 2026-01-04T18:00:00Z"},
		{"expired", good, certsv1.CertificateSpec{DNSNames: names, Duration: hours(90)}, 90, false, "it has expired"},
		{"other names", good, certsv1.CertificateSpec{DNSNames: names[:1], Duration: hours(90)}, 0, false,
			"it is for [a.example.com b.example.com] and not for [b.example.com]"},
		{"another duration", good, certsv1.CertificateSpec{DNSNames: names, Duration: hours(100)}, 0, true,
			"it is valid for 90h0m0s and not for 100h0m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			have, why := inspect(&tt.spec, tt.secret, start.Add(tt.after*time.Hour))
			if (have != nil) != tt.wantHave || why != tt.wantWhy {
				t.Errorf("got %v, %q, want %q", have != nil, why, tt.wantWhy)
			}
		})
	}
}
