// Package certificates approves the CertificateSigningRequests of kubelets, signs approved requests for the built-in
// signers, and deletes old requests.
package certificates

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

const (
	// maxLifetime is the longest lifetime of a certificate, and the default.
	maxLifetime = 365 * 24 * time.Hour
	minLifetime = 10 * time.Minute
	// backdate is how long before the signature NotBefore lies, because clocks may differ. It shortens the lifetime
	// after the signature, unless the lifetime is short.
	backdate      = 5 * time.Minute
	shortLifetime = 8 * time.Hour
)

// Authority is the certificate authority that signs.
type Authority struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// AddToManager adds the controller.
//
//upstream:pkg/controller/certificates/signer.NewCSRSigningController
func AddToManager(mgr manager.Manager, ca *Authority) error {
	return builder.ControllerManagedBy(mgr).
		Named("certificatesigningrequest-signing").
		For(&certificatesv1.CertificateSigningRequest{}).
		Complete(&reconciler{mgr.GetClient(), ca})
}

// reconciler signs requests.
type reconciler struct {
	client client.Client
	ca     *Authority
}

// Reconcile signs one request if it is approved and for one of the signers, or marks it as failed.
//
//upstream:pkg/controller/certificates/signer.signer.handle
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := r.client.Get(ctx, req.NamespacedName, csr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	validate := signers[csr.Spec.SignerName]
	if validate == nil || len(csr.Status.Certificate) > 0 || !has(csr, certificatesv1.CertificateApproved) ||
		has(csr, certificatesv1.CertificateDenied) || has(csr, certificatesv1.CertificateFailed) {
		return reconcile.Result{}, nil
	}
	request, err := parse(csr.Spec.Request)
	if err == nil {
		err = validate(request, csr.Spec.Usages)
	}
	if err != nil {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure",
			Message: err.Error(), LastUpdateTime: metav1.Now()})
	} else if csr.Status.Certificate, err = r.ca.sign(request, &csr.Spec, time.Now()); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Status().Update(ctx, csr))
}

// has reports whether a request has a condition that is not False.
//
//upstream:pkg/controller/certificates.HasTrueCondition
func has(csr *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == t && c.Status != corev1.ConditionFalse
	})
}

//upstream:pkg/apis/certificates.ParseCSR
func parse(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return request, request.CheckSignature()
}

// sign returns the certificate of a request in PEM.
//
//upstream:pkg/controller/certificates/signer.signer.sign
//upstream:pkg/controller/certificates/authority.CertificateAuthority.Sign
//upstream:pkg/controller/certificates/authority.PermissiveSigningPolicy
func (a *Authority) sign(request *x509.CertificateRequest, spec *certificatesv1.CertificateSigningRequestSpec,
	now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	until := now.Add(lifetime(spec.ExpirationSeconds))
	if until.Sub(now) >= shortLifetime {
		until = until.Add(-backdate)
	}
	if until.After(a.Certificate.NotAfter) {
		until = a.Certificate.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: request.Subject, NotBefore: now.Add(-backdate), NotAfter: until,
		DNSNames: request.DNSNames, IPAddresses: request.IPAddresses, EmailAddresses: request.EmailAddresses,
		URIs: request.URIs, BasicConstraintsValid: true,
	}
	for _, usage := range spec.Usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature:
			template.KeyUsage |= x509.KeyUsageDigitalSignature
		case certificatesv1.UsageKeyEncipherment:
			template.KeyUsage |= x509.KeyUsageKeyEncipherment
		case certificatesv1.UsageClientAuth:
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		case certificatesv1.UsageServerAuth:
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, request.PublicKey, a.Key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// lifetime returns the lifetime of a certificate. seconds is the requested lifetime, or nil for the default.
//
//upstream:pkg/controller/certificates/signer.signer.duration
func lifetime(seconds *int32) time.Duration {
	if seconds == nil {
		return maxLifetime
	}
	return min(max(time.Duration(*seconds)*time.Second, minLifetime), maxLifetime)
}

// signers maps the built-in signers to the checks of their requests.
//
//upstream:pkg/controller/certificates/signer.getCSRVerificationFuncForSignerName
var signers = map[string]func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientSignerName: func(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
		return checkUsages(usages)
	},
	certificatesv1.KubeAPIServerClientKubeletSignerName: checkKubeletClient,
	certificatesv1.KubeletServingSignerName:             checkKubeletServing,
}

// The errors for the requests of kubelets. kubectl shows them in the condition Failed.
var (
	errOrganization = errors.New("subject organization is not system:nodes")
	//lint:ignore ST1005 the text is Kubernetes'
	errCommonName = errors.New("subject common name does not begin with system:node:")
	errNoAddress  = errors.New("DNS or IP subjectAltName is required")
	errDNS        = errors.New("DNS subjectAltNames are not allowed")
	//lint:ignore ST1005 the text is Kubernetes'
	errEmail = errors.New("Email subjectAltNames are not allowed")
	errIP    = errors.New("IP subjectAltNames are not allowed")
	errURI   = errors.New("URI subjectAltNames are not allowed")
)

// checkKubeletClient checks a request for the client certificate of a kubelet.
//
//upstream:pkg/apis/certificates.ValidateKubeletClientCSR
func checkKubeletClient(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{user.NodesGroup}):
		return errOrganization
	case len(r.DNSNames) > 0:
		return errDNS
	case len(r.EmailAddresses) > 0:
		return errEmail
	case len(r.IPAddresses) > 0:
		return errIP
	case len(r.URIs) > 0:
		return errURI
	case !strings.HasPrefix(r.Subject.CommonName, nodePrefix):
		return errCommonName
	}
	return checkKubeletUsages(usages, certificatesv1.UsageClientAuth)
}

// checkKubeletServing checks a request for the serving certificate of a kubelet.
//
//upstream:pkg/apis/certificates.ValidateKubeletServingCSR
func checkKubeletServing(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{user.NodesGroup}):
		return errOrganization
	case len(r.DNSNames)+len(r.IPAddresses) == 0:
		return errNoAddress
	case len(r.EmailAddresses) > 0:
		return errEmail
	case len(r.URIs) > 0:
		return errURI
	}
	if err := checkKubeletUsages(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if !strings.HasPrefix(r.Subject.CommonName, nodePrefix) {
		return errCommonName
	}
	return nil
}

// nodePrefix is the prefix of the user names of nodes.
const nodePrefix = "system:node:"

// checkKubeletUsages checks that the usages contain the required one and digital signature. Key encipherment is
// optional, because only RSA keys need it.
func checkKubeletUsages(usages []certificatesv1.KeyUsage, required certificatesv1.KeyUsage) error {
	has, want := sets.New(usages...), sets.New(certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, required)
	if has.Equal(want) || has.Insert(certificatesv1.UsageKeyEncipherment).Equal(want) {
		return nil
	}
	return fmt.Errorf("usages did not match %v", sets.List(want))
}

// checkUsages checks that the usages contain client auth. Digital signature and key encipherment are optional.
//
//upstream:pkg/controller/certificates/signer.validAPIServerClientUsages
func checkUsages(usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		if u != certificatesv1.UsageClientAuth && u != certificatesv1.UsageDigitalSignature && u != certificatesv1.UsageKeyEncipherment {
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}
