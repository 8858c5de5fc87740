package admission

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// signing is a plugin for certificate objects. Its function gets the new and the stored object; either is nil if it
// does not exist.
type signing[T runtime.Object] struct {
	*admission.Handler
	resource, subresource string
	validate              func(ctx context.Context, a admission.Attributes, obj, old T) error
}

// Validate implements [admission.ValidationInterface].
func (s signing[T]) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certificatesv1.Resource(s.resource) || a.GetSubresource() != s.subresource {
		return nil
	}
	obj, _ := a.GetObject().(T)
	old, _ := a.GetOldObject().(T)
	return s.validate(ctx, a, obj, old)
}

// requestsPlugin returns a plugin for CertificateSigningRequests.
func requestsPlugin(subresource string, operation admission.Operation,
	validate func(ctx context.Context, a admission.Attributes, r, old *certificatesv1.CertificateSigningRequest) error) admission.Interface {
	return signing[*certificatesv1.CertificateSigningRequest]{admission.NewHandler(operation),
		"certificatesigningrequests", subresource, validate}
}

// newCertificateApproval returns the plugin that allows the approval of a request only to users with the verb approve
// on its signer.
//
//upstream:plugin/pkg/admission/certificates/approval.Plugin
func newCertificateApproval(e Environment) admission.Interface {
	return requestsPlugin("approval", admission.Update, func(ctx context.Context, a admission.Attributes, _, old *certificatesv1.CertificateSigningRequest) error {
		if mayUseSigner(ctx, e.Authorizer, a.GetUserInfo(), "approve", old.Spec.SignerName) {
			return nil
		}
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to approve requests with signerName %q", old.Spec.SignerName))
	})
}

// newCertificateSigning returns the plugin that allows issuing a certificate, or setting the condition Failed, only to
// users with the verb sign on the signer of the request.
//
//upstream:plugin/pkg/admission/certificates/signing.Plugin
func newCertificateSigning(e Environment) admission.Interface {
	return requestsPlugin("status", admission.Update, func(ctx context.Context, a admission.Attributes, r, old *certificatesv1.CertificateSigningRequest) error {
		if bytes.Equal(r.Status.Certificate, old.Status.Certificate) && equality.Semantic.DeepEqual(r.Status.Conditions, old.Status.Conditions) {
			return nil
		}
		if mayUseSigner(ctx, e.Authorizer, a.GetUserInfo(), "sign", old.Spec.SignerName) {
			return nil
		}
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
	})
}

// newCertificateSubjectRestriction returns the plugin that rejects requests for client certificates of the group
// system:masters.
//
//upstream:plugin/pkg/admission/certificates/subjectrestriction.Plugin
func newCertificateSubjectRestriction(Environment) admission.Interface {
	return requestsPlugin("", admission.Create, func(_ context.Context, a admission.Attributes, r, _ *certificatesv1.CertificateSigningRequest) error {
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
	})
}

// newClusterTrustBundleAttest returns the plugin that allows writes of a signer's trust bundle only to users with the
// verb attest on the signer.
//
//upstream:plugin/pkg/admission/certificates/ctbattest.Plugin
func newClusterTrustBundleAttest(e Environment) admission.Interface {
	return signing[*certificatesv1.ClusterTrustBundle]{admission.NewHandler(admission.Create, admission.Update),
		"clustertrustbundles", "", func(ctx context.Context, a admission.Attributes, bundle, _ *certificatesv1.ClusterTrustBundle) error {
			if name := bundle.Spec.SignerName; name != "" && !mayUseSigner(ctx, e.Authorizer, a.GetUserInfo(), "attest", name) {
				return admission.NewForbidden(a, fmt.Errorf("user not permitted to attest for signerName %q", name))
			}
			return nil
		}}
}

// mayUseSigner reports whether a user has a verb on a signer, or on all signers of its domain.
//
//upstream:pkg/certauthorization.IsAuthorizedForSignerName
func mayUseSigner(ctx context.Context, a authorizer.UnconditionalAuthorizer, u user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, err := a.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: verb, Name: name,
			APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", ResourceRequest: true})
		if err == nil && decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}
