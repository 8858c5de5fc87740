package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	certsv1 "flyball.dev/examples/certificates/api/v1"
	"flyball.dev/examples/certificates/internal/controller"
	"flyball.dev/examples/certificates/internal/issuer"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// certificates returns the example with an issuer of its own.
func certificates(t *testing.T) (*example.Example, *issuer.Issuer) {
	ca, err := issuer.New(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return newExample(ca), ca
}

func TestTour(t *testing.T) {
	e, _ := certificates(t)
	exampletest.Tour(t, e)
}

func TestLocally(t *testing.T) {
	e, _ := certificates(t)
	exampletest.Locally(t, e, "kubectl get certificates", "Certificate issued.  because: there is no Secret")
}

func TestOnCluster(t *testing.T) {
	e, _ := certificates(t)
	exampletest.OnCluster(t, e, func(ctx context.Context, w *example.World) error {
		sample := &certsv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}}
		return await.Object(ctx, w.Client, sample, func(c *certsv1.Certificate) string {
			if !meta.IsStatusConditionTrue(c.Status.Conditions, certsv1.ConditionReady) {
				return "the sample is not ready"
			}
			return ""
		})
	})
}

// TestYear lets a year pass. At the end of each day the Secret has a certificate that is valid, and it
// has been renewed as often as it had to be; in July the issuer is down for so long that it expires.
func TestYear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ca := certificates(t)
		plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		w, err := example.NewWorld(t.Context(), e, plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: example.Namespace}}); err != nil {
			t.Fatal(err)
		}
		// A year has half a million minutes, and in each there would be a bookmark.
		withoutBookmarks := func(o *ctrl.Options) { o.Cache.DefaultEnableWatchBookmarks = new(false) }
		if _, err := w.Start(t.Context(), withoutBookmarks); err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		const day = 24 * time.Hour
		c := &certsv1.Certificate{
			ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "web"},
			Spec: certsv1.CertificateSpec{DNSNames: []string{"web.example.com"}, SecretName: "web",
				Duration: metav1.Duration{Duration: 30 * day}},
		}
		if err := w.Client.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		var last []byte
		issued := 0
		for today := 1; today <= 365; today++ {
			// A renewal is due on day 180, and the certificate ends on day 190.
			ca.SetDown(today > 170 && today <= 195)
			time.Sleep(day)
			synctest.Wait()
			secret := &corev1.Secret{}
			if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: example.Namespace, Name: "web"}, secret); err != nil {
				t.Fatal(err)
			}
			pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(last, pair.Certificate[0]) {
				last = pair.Certificate[0]
				issued++
			}
			valid := time.Now().Before(pair.Leaf.NotAfter)
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				t.Fatal(err)
			}
			ready := meta.FindStatusCondition(c.Status.Conditions, certsv1.ConditionReady)
			if expired := today >= 190 && today <= 195; valid == expired || (ready.Status == metav1.ConditionTrue) == expired {
				t.Errorf("day %d: valid until %v, Ready is %+v", today, pair.Leaf.NotAfter, ready)
			}
			if late := today >= 180 && today <= 195; (ready.Reason == controller.ReasonPending) != late {
				t.Errorf("day %d: Ready is %+v", today, ready)
			}
		}
		if issued != 18 { // day 0, 20, ... 160, then 195, 215, ... 355
			t.Errorf("%d certificates were issued", issued)
		}
	})
}
