package main

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	certsv1 "flyball.dev/examples/certificates/api/v1"
	"flyball.dev/examples/certificates/internal/issuer"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/lab"
)

// newIssuer returns an issuer that begins when bubbles begin.
func newIssuer(t *testing.T) (ca *issuer.Issuer) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if ca, err = issuer.New(time.Now()); err != nil {
			t.Fatal(err)
		}
	})
	return ca
}

// TestLab explores what can go wrong while a Certificate is issued, renewed, changed, deleted and created again.
func TestLab(t *testing.T) {
	cert := &certsv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
		Spec: certsv1.CertificateSpec{DNSNames: []string{"shop.example.com"}, SecretName: "shop-tls",
			Duration: metav1.Duration{Duration: 6 * time.Hour}, RenewBefore: &metav1.Duration{Duration: time.Hour}},
	}
	exampletest.Lab(t, newExample(newIssuer(t)), lab.Scenario{Rest: 6 * time.Minute, Steps: []lab.Step{
		lab.Create(cert),
		lab.Update(cert, func(c *certsv1.Certificate) { c.Spec.DNSNames = []string{"shop.example.com", "www.example.com"} }),
		lab.Remove(cert),
		lab.Create(cert),
	}}, nil)
}
