// Package tour issues certificates and checks against the API, and with crypto/x509, what the Secrets
// have. What takes long is in the tests of the example, where a year takes a second.
package tour

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	certsv1 "flyball.dev/examples/certificates/api/v1"
	"flyball.dev/examples/certificates/internal/controller"
	"flyball.dev/examples/certificates/internal/issuer"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
)

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World, ca *issuer.Issuer) []example.Step {
	w := &world{World: shared, ca: ca}
	step := example.NewStep
	return []example.Step{
		step("a Certificate is created: its Secret has a certificate that verifies", w.create),
		step("its end is near: it is renewed, and again", w.renewed),
		step("the names change: a certificate for them is issued at once", w.names),
		step("the key in the Secret is damaged by a user: a new pair is issued", w.damaged),
		step("the issuer is down and the Secret is deleted: not ready, and issued when it is up", w.down),
		step("the operator is restarted: a certificate that is good stays", w.restarted),
		step("a Secret of somebody else is left alone", w.nameTaken),
		step("renewBefore that is too long or negative is rejected, and so is another Secret", w.rejected),
		step("the Certificate is deleted: its Secret is garbage collected", w.collected),
	}
}

// world is the state that the steps share.
type world struct {
	*example.World
	ca          *issuer.Issuer
	operator    *example.Operator
	certificate *certsv1.Certificate
}

// newCertificate returns a Certificate for an hour.
func newCertificate(name string, renewBefore time.Duration) *certsv1.Certificate {
	return &certsv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name},
		Spec: certsv1.CertificateSpec{
			DNSNames: []string{"web.example.com"}, SecretName: name + "-tls", Duration: metav1.Duration{Duration: time.Hour},
			RenewBefore: &metav1.Duration{Duration: renewBefore},
		},
	}
}

// issued waits until the Secret has a certificate that verifies for the names of the Certificate and
// is not one of those, and returns it.
func (w *world) issued(ctx context.Context, not ...*x509.Certificate) (found *x509.Certificate, err error) {
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.certificate), w.certificate); err != nil {
		return nil, err
	}
	secret := w.certificate.Spec.SecretName
	return found, await.Until(ctx, w.Client, &corev1.SecretList{}, func(all []*corev1.Secret) string {
		for _, s := range all {
			if s.Name != secret {
				continue
			}
			if found, err = w.verified(s); err != nil {
				return err.Error()
			}
			for _, other := range not {
				if found.SerialNumber.Cmp(other.SerialNumber) == 0 {
					return "the certificate is still the old one"
				}
			}
			return ""
		}
		return "there is no Secret"
	}, client.InNamespace(example.Namespace))
}

// verified returns the certificate of a Secret, if a client that trusts the issuer would accept it for
// all names of the Certificate.
func (w *world) verified(s *corev1.Secret) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	for _, name := range w.certificate.Spec.DNSNames {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: w.ca.Roots()}); err != nil {
			return nil, err
		}
	}
	if s.Type != corev1.SecretTypeTLS || !metav1.IsControlledBy(s, w.certificate) {
		return nil, fmt.Errorf("the Secret is of type %s, controlled by %v", s.Type, metav1.GetControllerOf(s))
	}
	return pair.Leaf, nil
}

// condition waits until Ready has that status and reason.
func (w *world) condition(ctx context.Context, c *certsv1.Certificate, status metav1.ConditionStatus, reason string) error {
	return await.Object(ctx, w.Client, c, func(c *certsv1.Certificate) string {
		ready := meta.FindStatusCondition(c.Status.Conditions, certsv1.ConditionReady)
		if ready == nil || ready.Status != status || ready.Reason != reason || ready.ObservedGeneration != c.Generation {
			return fmt.Sprintf("Ready is %+v, want %s because of %s", ready, status, reason)
		}
		return ""
	})
}

// change patches the spec of the Certificate.
func (w *world) change(ctx context.Context, change func(*certsv1.CertificateSpec)) error {
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.certificate), w.certificate); err != nil {
		return err
	}
	before := client.MergeFrom(w.certificate.DeepCopy())
	change(&w.certificate.Spec)
	return w.Client.Patch(ctx, w.certificate, before)
}

func (w *world) create(ctx context.Context) (err error) {
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	w.certificate = newCertificate("web", 20*time.Minute)
	if err := w.Client.Create(ctx, w.certificate); err != nil {
		return err
	}
	leaf, err := w.issued(ctx)
	if err != nil {
		return err
	}
	if err := w.condition(ctx, w.certificate, metav1.ConditionTrue, controller.ReasonIssued); err != nil {
		return err
	}
	if status := w.certificate.Status; !status.NotAfter.Time.Equal(leaf.NotAfter) ||
		leaf.NotAfter.Sub(status.RenewalTime.Time) != 20*time.Minute {
		return fmt.Errorf("the status has %v and %v, the certificate ends at %v", status.NotAfter, status.RenewalTime, leaf.NotAfter)
	}
	return nil
}

func (w *world) renewed(ctx context.Context) error {
	first, err := w.issued(ctx)
	if err != nil {
		return err
	}
	if err := w.change(ctx, func(s *certsv1.CertificateSpec) { s.RenewBefore.Duration = time.Hour - time.Second }); err != nil {
		return err
	}
	second, err := w.issued(ctx, first)
	if err != nil {
		return err
	}
	if _, err := w.issued(ctx, first, second); err != nil {
		return err
	}
	return w.change(ctx, func(s *certsv1.CertificateSpec) { s.RenewBefore.Duration = 20 * time.Minute })
}

func (w *world) names(ctx context.Context) error {
	if err := w.change(ctx, func(s *certsv1.CertificateSpec) {
		s.DNSNames = []string{"web.example.com", "www.example.com"}
	}); err != nil {
		return err
	}
	_, err := w.issued(ctx)
	return err
}

func (w *world) damaged(ctx context.Context) error {
	leaf, err := w.issued(ctx)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: w.certificate.Spec.SecretName}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"tls.key":"nonsense"}}`))
	if err := w.Client.Patch(ctx, secret, patch); err != nil {
		return err
	}
	_, err = w.issued(ctx, leaf)
	return err
}

func (w *world) down(ctx context.Context) error {
	w.ca.SetDown(true)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: w.certificate.Spec.SecretName}}
	if err := w.Client.Delete(ctx, secret); err != nil {
		return err
	}
	if err := w.condition(ctx, w.certificate, metav1.ConditionFalse, controller.ReasonPending); err != nil {
		return err
	}
	w.ca.SetDown(false)
	if _, err := w.issued(ctx); err != nil {
		return err
	}
	return w.condition(ctx, w.certificate, metav1.ConditionTrue, controller.ReasonIssued)
}

func (w *world) restarted(ctx context.Context) (err error) {
	if err := w.operator.Stop(); err != nil {
		return err
	}
	before, err := w.issued(ctx)
	if err != nil {
		return err
	}
	if w.operator, err = w.StartIdle(ctx); err != nil {
		return err
	}
	after, err := w.issued(ctx)
	if err == nil && !after.Equal(before) {
		err = errors.New("the certificate was replaced")
	}
	return err
}

func (w *world) nameTaken(ctx context.Context) error {
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "theirs-tls"}}
	c := newCertificate("theirs", time.Minute)
	for _, obj := range []client.Object{theirs, c} {
		if err := w.Client.Create(ctx, obj); err != nil {
			return err
		}
	}
	if err := w.condition(ctx, c, metav1.ConditionFalse, controller.ReasonNameTaken); err != nil {
		return err
	}
	now := &corev1.Secret{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(theirs), now); err != nil {
		return err
	}
	if now.ResourceVersion != theirs.ResourceVersion {
		return errors.New("the Secret was changed")
	}
	return nil
}

func (w *world) rejected(ctx context.Context) error {
	// With the second, each certificate would have to be renewed as soon as it is issued.
	for _, before := range []time.Duration{2 * time.Hour, time.Hour - time.Nanosecond, 0, -time.Hour} {
		if err := w.Client.Create(ctx, newCertificate("late", before)); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "renewBefore") {
			return fmt.Errorf("to renewBefore %v, the API server answered %v", before, err)
		}
	}
	unicode := newCertificate("unicode", time.Minute)
	unicode.Spec.DNSNames = []string{"münchen.example.com"}
	if err := w.Client.Create(ctx, unicode); !apierrors.IsInvalid(err) {
		return fmt.Errorf("to a name that no certificate can have, the API server answered %v", err)
	}
	err := w.change(ctx, func(s *certsv1.CertificateSpec) { s.SecretName = "another" })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.secretName") {
		return fmt.Errorf("the API server answered %v", err)
	}
	return nil
}

func (w *world) collected(ctx context.Context) error {
	if err := w.Client.Delete(ctx, w.certificate); err != nil {
		return err
	}
	return await.Gone(ctx, w.Client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: w.certificate.Spec.SecretName},
	})
}
