package certificates

import (
	"context"
	"crypto/x509"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// AddApproverToManager adds the controller that approves the requests of kubelets for their client
// certificates, if the requester is authorized to have them approved.
//
//upstream:pkg/controller/certificates/approver.NewCSRApprovingController
func AddApproverToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("certificatesigningrequest-approving").
		For(&certificatesv1.CertificateSigningRequest{}).
		Complete(&approver{mgr.GetClient()})
}

// approver approves requests.
type approver struct{ client client.Client }

// Reconcile approves one request if a kubelet has made it and the requester is authorized.
//
//upstream:pkg/controller/certificates/approver.sarApprover.handle
func (a *approver) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := a.client.Get(ctx, req.NamespacedName, csr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || len(csr.Status.Certificate) > 0 ||
		has(csr, certificatesv1.CertificateApproved) || has(csr, certificatesv1.CertificateDenied) {
		return reconcile.Result{}, nil
	}
	request, err := parse(csr.Spec.Request)
	if err != nil || !isKubeletClient(request, csr.Spec.Usages) {
		return reconcile.Result{}, nil
	}
	for _, permission := range []struct {
		subresource, message string
		applies              bool
	}{
		{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.",
			csr.Spec.Username == request.Subject.CommonName},
		{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.", true},
	} {
		if !permission.applies {
			continue
		}
		allowed, err := a.authorized(ctx, csr, permission.subresource)
		if err != nil {
			return reconcile.Result{}, err
		}
		if allowed {
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: permission.message})
			return reconcile.Result{}, client.IgnoreNotFound(a.client.SubResource("approval").Update(ctx, csr))
		}
	}
	return reconcile.Result{}, nil
}

// isKubeletClient reports whether a request is for the client certificate of a kubelet.
//
//upstream:pkg/controller/certificates/approver.isNodeClientCert
func isKubeletClient(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) bool {
	return checkKubeletClient(r, usages) == nil
}

// authorized reports whether the requester may create a subresource of signing requests, which
// stands for having a request approved.
//
//upstream:pkg/controller/certificates/approver.sarApprover.authorize
func (a *approver) authorized(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: csr.Spec.Username, UID: csr.Spec.UID, Groups: csr.Spec.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: certificatesv1.GroupName,
			Resource: "certificatesigningrequests", Verb: "create", Subresource: subresource, Version: "*"},
	}}
	for key, values := range csr.Spec.Extra {
		review.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	err := a.client.Create(ctx, review)
	return review.Status.Allowed, err
}
