package apiserver

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"flyball.dev/apiserver/authz"
)

// certificateChecks are the admission plugins CertificateApproval, CertificateSigning and
// CertificateSubjectRestriction: who may approve and sign requests depends on the signer, and no
// request makes anybody a member of system:masters.
type certificateChecks struct {
	*admission.Handler
	access authz.Authorizer
}

var _ admission.ValidationInterface = certificateChecks{}

func newCertificateChecks(access authz.Authorizer) admission.Interface {
	return certificateChecks{admission.NewHandler(admission.Create, admission.Update), access}
}

func (c certificateChecks) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certificatesv1.Resource("certificatesigningrequests") {
		return nil
	}
	r, _ := a.GetObject().(*certificatesv1.CertificateSigningRequest)
	old, _ := a.GetOldObject().(*certificatesv1.CertificateSigningRequest)
	switch sub := a.GetSubresource(); {
	case r == nil:
		return nil
	case sub == "" && a.GetOperation() == admission.Create:
		return restrictSubject(a, r)
	case old == nil:
		return nil
	case sub == "approval" && !c.mayUse(ctx, a.GetUserInfo(), "approve", old.Spec.SignerName):
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to approve requests with signerName %q",
			old.Spec.SignerName))
	case sub == "status" && !sameOutcome(r, old) && !c.mayUse(ctx, a.GetUserInfo(), "sign", old.Spec.SignerName):
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q",
			old.Spec.SignerName))
	}
	return nil
}

func sameOutcome(r, old *certificatesv1.CertificateSigningRequest) bool {
	return bytes.Equal(r.Status.Certificate, old.Status.Certificate) &&
		equality.Semantic.DeepEqual(r.Status.Conditions, old.Status.Conditions)
}

// restrictSubject refuses a request for a client certificate of system:masters.
func restrictSubject(a admission.Attributes, r *certificatesv1.CertificateSigningRequest) error {
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return nil // which validation refuses
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %v", err))
	}
	if slices.Contains(request.Subject.Organization, user.SystemPrivilegedGroup) {
		return admission.NewForbidden(a, fmt.Errorf("use of %s signer with %s group is not allowed",
			certificatesv1.KubeAPIServerClientSignerName, user.SystemPrivilegedGroup))
	}
	return nil
}

// mayUse reports whether a user may approve or sign the requests of a signer, or of all signers of
// its domain.
func (c certificateChecks) mayUse(ctx context.Context, u user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, err := c.access.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: verb, Name: name,
			APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", ResourceRequest: true})
		if err == nil && decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}
