// Package controller has the controller of Certificates, which time drives.
package controller

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
	certsv1 "flyball.dev/examples/certificates/api/v1"
	"flyball.dev/examples/certificates/internal/issuer"
)

// The reasons of the condition Ready.
const (
	ReasonIssued    = "Issued"
	ReasonPending   = "IssuerUnavailable"
	ReasonNameTaken = "NameTaken"
	// ReasonIssueFailed is the reason if no certificate for the spec can be issued or stored.
	ReasonIssueFailed = "IssueFailed"
)

// errNameTaken is the error if there is a Secret of that name that belongs to somebody else.
var errNameTaken = errors.New("there is a Secret of this name that the Certificate does not control")

// CertificateReconciler issues and renews certificates.
type CertificateReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
	Issuer   *issuer.Issuer
	Clock    clock.PassiveClock
	// RetryInterval is the time between two attempts while the issuer is down, or the Secret is
	// somebody else's.
	RetryInterval time.Duration
}

// +kubebuilder:rbac:groups=certs.example.com,resources=certificates,verbs=get;list;watch
// +kubebuilder:rbac:groups=certs.example.com,resources=certificates/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=certs.example.com,resources=certificates/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager.
func (r *CertificateReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&certsv1.Certificate{}).
		Owns(&corev1.Secret{}).
		Named("certificates").
		Complete(r)
}

// Reconcile issues the certificate in the Secret if it has to be replaced, and comes back when that
// will be the case again. When that is, it reads from the certificate itself: a restart forgets
// nothing, and a certificate that a user put there is judged like its own.
func (r *CertificateReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	certificate := &certsv1.Certificate{}
	if err := r.Get(ctx, req.NamespacedName, certificate); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !certificate.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the Secret is garbage collected
	}
	before := certificate.Status.DeepCopy()
	next, ready, err := r.ensure(ctx, certificate)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		// The cache was behind: the next reconcile sees the Secret, and the certificate that was
		// issued in vain is forgotten.
		return ctrl.Result{}, err
	}
	if err := errors.Join(err, r.updateStatus(ctx, certificate, before, ready)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: next}, nil
}

// ensure issues the certificate if need be. It returns the condition Ready, with an error too, and the
// time until the next look.
func (r *CertificateReconciler) ensure(ctx context.Context, c *certsv1.Certificate) (time.Duration, metav1.Condition, error) {
	c.Status.NotAfter, c.Status.RenewalTime = nil, nil
	secret, err := r.secretOf(ctx, c)
	if errors.Is(err, errNameTaken) {
		return r.RetryInterval, notReady(ReasonNameTaken, err), nil // no event says that the name is free
	}
	if err != nil {
		return 0, notReady(ReasonIssueFailed, err), err
	}
	now := r.Clock.Now()
	have, why := inspect(&c.Spec, secret, now)
	if why != "" {
		issued, err := r.issue(ctx, c, secret, why)
		if errors.Is(err, issuer.ErrUnavailable) {
			setTimes(c, have)
			return r.retryAfter(have, now), waiting(ReasonPending, have, err), nil
		}
		if err != nil {
			setTimes(c, have)
			return 0, waiting(ReasonIssueFailed, have, err), err
		}
		have = issued
	}
	setTimes(c, have)
	return max(renewalTime(&c.Spec, have).Sub(now), time.Second), metav1.Condition{Type: certsv1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: ReasonIssued, Message: "the certificate is valid until " + have.NotAfter.UTC().Format(time.RFC3339)}, nil
}

// setTimes sets the times in the status to the times of a certificate, which may be nil.
func setTimes(c *certsv1.Certificate, have *x509.Certificate) {
	if have != nil {
		c.Status.NotAfter = new(metav1.NewTime(have.NotAfter))
		c.Status.RenewalTime = new(metav1.NewTime(renewalTime(&c.Spec, have)))
	}
}

// secretOf returns the Secret of a Certificate, or nil if there is none, or errNameTaken.
func (r *CertificateReconciler) secretOf(ctx context.Context, c *certsv1.Certificate) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.SecretName}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !metav1.IsControlledBy(secret, c):
		return nil, errNameTaken
	}
	return secret, nil
}

// issue puts a new certificate into the Secret, which is nil if there is none, and returns it.
func (r *CertificateReconciler) issue(ctx context.Context, c *certsv1.Certificate, secret *corev1.Secret,
	why string) (*x509.Certificate, error) {
	from := r.Clock.Now().Truncate(time.Second) // certificates have no fractions of it
	certificate, key, err := r.Issuer.Issue(c.Spec.DNSNames, from, from.Add(c.Spec.Duration.Duration))
	if err != nil {
		return nil, err
	}
	exists := secret != nil
	if !exists {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Spec.SecretName}}
		secret.Type = corev1.SecretTypeTLS
		if err := ctrl.SetControllerReference(c, secret, r.Scheme); err != nil {
			return nil, err
		}
	}
	secret.Data = map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
	if exists {
		err = r.Update(ctx, secret)
	} else {
		err = r.Create(ctx, secret)
	}
	if err != nil {
		return nil, err
	}
	log.FromContext(ctx).Info("Certificate issued.", "because", why)
	r.Recorder.Eventf(c, secret, corev1.EventTypeNormal, "Issued", "Issue", "Issued because %s", why)
	have, _ := inspect(&c.Spec, secret, from)
	return have, nil
}

// retryAfter returns the time until the issuer is asked again, or until the old certificate, which is
// nil if it cannot be used, ends.
func (r *CertificateReconciler) retryAfter(have *x509.Certificate, now time.Time) time.Duration {
	if have == nil {
		return r.RetryInterval
	}
	return min(r.RetryInterval, have.NotAfter.Sub(now))
}

// waiting returns the condition Ready while no certificate can be issued: true as long as the old one,
// which is nil if it cannot be used, does its work.
func waiting(reason string, have *x509.Certificate, err error) metav1.Condition {
	if have == nil {
		return notReady(reason, err)
	}
	return metav1.Condition{Type: certsv1.ConditionReady, Status: metav1.ConditionTrue, Reason: reason,
		Message: "the certificate cannot be renewed now: " + err.Error()}
}

// notReady returns the condition Ready if there is no certificate that can be used.
func notReady(reason string, err error) metav1.Condition {
	return metav1.Condition{Type: certsv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason,
		Message: err.Error()}
}

// updateStatus updates the status if it differs from what it was before.
func (r *CertificateReconciler) updateStatus(ctx context.Context, c *certsv1.Certificate,
	before *certsv1.CertificateStatus, ready metav1.Condition) error {
	c.Status.ObservedGeneration = c.Generation
	ready.ObservedGeneration = c.Generation
	meta.SetStatusCondition(&c.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before, &c.Status) {
		return nil
	}
	return r.Status().Update(ctx, c)
}
