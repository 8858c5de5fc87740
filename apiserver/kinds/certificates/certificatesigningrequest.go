// Package certificates describes the kinds of the certificates.k8s.io API group.
package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// CertificateSigningRequests describes the kind CertificateSigningRequest.
//
//upstream:pkg/registry/certificates/certificates.csrStrategy
//upstream:pkg/registry/certificates/certificates.csrStatusStrategy
//upstream:pkg/registry/certificates/certificates.csrApprovalStrategy
//upstream:pkg/registry/certificates/certificates.SelectableFields
//upstream:pkg/apis/certificates/v1.addConversionFuncs
//upstream:pkg/printers/internalversion.printCertificateSigningRequest
//upstream:pkg/registry/certificates/certificates/storage.REST.ShortNames
func CertificateSigningRequests() kinds.Kind {
	return kinds.Of[*certificatesv1.CertificateSigningRequest]{
		Type: &certificatesv1.CertificateSigningRequest{}, List: &certificatesv1.CertificateSigningRequestList{},
		Plural: "certificatesigningrequests", ShortNames: []string{"csr"}, Cluster: true,
		Name:           anyName,
		Prepare:        prepareRequest,
		Validate:       validateRequest,
		ValidateUpdate: validateRequestUpdate,
		Reset:          []string{"spec"},
		Status:         true,
		PrepareStatus:  prepareRequestStatus,
		StatusReset:    []string{"status.conditions"},
		ValidateStatus: func(r, old *certificatesv1.CertificateSigningRequest) (errs field.ErrorList) {
			status := check.Object(&errs).Child("status")
			requestStatus(status, r, old)
			keepsConditions(status.Child("conditions"), r, old)
			addsNoApproval(status.Child("conditions"), r, old)
			check.Forbid(status.Child("certificate"), len(old.Status.Certificate) > 0 && !bytes.Equal(r.Status.Certificate, old.Status.Certificate),
				"updates may not modify existing certificate content")
			return errs
		},
		Parts: map[string]kinds.Part[*certificatesv1.CertificateSigningRequest]{"approval": {
			Prepare: prepareApproval,
			Validate: func(r, old *certificatesv1.CertificateSigningRequest) (errs field.ErrorList) {
				status := check.Object(&errs).Child("status")
				requestStatus(status, r, old)
				keepsConditions(status.Child("conditions"), r, old)
				return errs
			},
			Filter: fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "certificate"))),
		}},
		Fields: func(r *certificatesv1.CertificateSigningRequest) fields.Set {
			return fields.Set{"spec.signerName": r.Spec.SignerName}
		},
		Bare: true,
		Columns: []metav1.TableColumnDefinition{
			columns.NameColumn,
			columns.AgeColumn,
			columns.Column("SignerName", "string", certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["signerName"]),
			columns.Column("Requestor", "string", certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["request"]),
			columns.Column("RequestedDuration", "string", certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["expirationSeconds"]),
			columns.Column("Condition", "string", certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
		},
		Row: requestRow,
	}
}

// anyName accepts every name.
//
//upstream:pkg/apis/certificates/validation.ValidateCertificateRequestName
func anyName(string, bool) []string { return nil }

// prepareRequest records the user who creates a request. Updates change neither spec nor status.
//
//upstream:pkg/registry/certificates/certificates.csrStrategy.PrepareForCreate
//upstream:pkg/registry/certificates/certificates.csrStrategy.PrepareForUpdate
func prepareRequest(ctx context.Context, r, old *certificatesv1.CertificateSigningRequest) {
	if old != nil {
		r.Spec = old.Spec
		return
	}
	r.Spec.Username, r.Spec.UID, r.Spec.Groups, r.Spec.Extra = "", "", nil, nil
	u, ok := request.UserFrom(ctx)
	if !ok {
		return
	}
	r.Spec.Username, r.Spec.UID, r.Spec.Groups = u.GetName(), u.GetUID(), u.GetGroups()
	for key, values := range u.GetExtra() {
		if r.Spec.Extra == nil {
			r.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		r.Spec.Extra[key] = values
	}
}

// prepareRequestStatus keeps the approval, which only the subresource approval changes, and sets
// the times of the conditions.
//
//upstream:pkg/registry/certificates/certificates.csrStatusStrategy.PrepareForUpdate
//upstream:pkg/registry/certificates/certificates.preserveConditionInstances
func prepareRequestStatus(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) {
	for _, t := range approvals {
		if was := conditionsOf(old, t); len(was) == len(conditionsOf(r, t)) {
			for i := range r.Status.Conditions {
				if c := &r.Status.Conditions[i]; c.Type == t {
					*c, was = was[0], was[1:]
				}
			}
		}
	}
	setConditionTimes(r, old)
}

// prepareApproval keeps everything but the conditions, and sets their times.
//
//upstream:pkg/registry/certificates/certificates.csrApprovalStrategy.PrepareForUpdate
func prepareApproval(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) {
	setConditionTimes(r, old)
	conditions := r.Status.Conditions
	r.Spec, r.Status = old.Spec, old.Status
	r.Status.Conditions = conditions
}

// setConditionTimes sets missing times. A condition keeps its transition time while its status stays the same.
//
//upstream:pkg/registry/certificates/certificates.populateConditionTimestamps
func setConditionTimes(r, old *certificatesv1.CertificateSigningRequest) {
	now := metav1.Now()
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, was := range old.Status.Conditions {
			if was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.LastTransitionTime
				break
			}
		}
	}
}

// approvals are the conditions that only the subresource approval sets.
var approvals = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied}

// final are the conditions that can only be true and cannot be removed.
var final = append(slices.Clip(approvals), certificatesv1.CertificateFailed)

//upstream:pkg/registry/certificates/certificates.findConditionIndices
func conditionsOf(r *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var list []certificatesv1.CertificateSigningRequestCondition
	for _, c := range r.Status.Conditions {
		if c.Type == t {
			list = append(list, c)
		}
	}
	return list
}

// usages are the usages of keys, in the order of the message.
//
//upstream:pkg/apis/certificates/validation.allValidUsages
var usages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
	certificatesv1.UsageContentCommitment, certificatesv1.UsageCRLSign, certificatesv1.UsageDataEncipherment,
	certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection,
	certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser,
	certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC,
	certificatesv1.UsageOCSPSigning, certificatesv1.UsageSMIME, certificatesv1.UsageServerAuth, certificatesv1.UsageSigning,
	certificatesv1.UsageTimestamping,
}

const (
	legacySigner = "kubernetes.io/legacy-unknown"
	// minExpiration is the lower limit of spec.expirationSeconds.
	minExpiration = 600
)

// validateRequest checks the request, its usages and its signer.
//
//upstream:pkg/apis/certificates/validation.validateCertificateSigningRequest
func validateRequest(r *certificatesv1.CertificateSigningRequest) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &r.Spec
	list, signer := spec.Child("usages"), spec.Child("signerName")
	if err := verifyRequest(s.Request); err != nil {
		spec.Child("request").Invalid(s.Request, err.Error())
	}
	if len(s.Usages) == 0 {
		list.Required("")
	}
	var seen fieldrules.Seen[certificatesv1.KeyUsage]
	for i, usage := range s.Usages {
		check.Supported(list.Index(i), usage, usages...)
		if !seen.Add(usage) {
			list.Index(i).Duplicate(usage)
		}
	}
	if s.SignerName == legacySigner {
		signer.Invalid(s.SignerName, "the legacy signerName is not allowed via this API version")
	} else {
		check.SignerName(signer, s.SignerName)
	}
	if n := s.ExpirationSeconds; n != nil && *n < minExpiration {
		spec.Child("expirationSeconds").Invalid(*n, "may not specify a duration less than 600 seconds (10 minutes)")
	}
	return errs
}

// verifyRequest checks that a PEM block is a certificate request with a valid signature.
//
//upstream:pkg/apis/certificates/validation.validateCSR
func verifyRequest(text []byte) error {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return parsed.CheckSignature()
}

// validateRequestUpdate checks the status too: it may be from before a rule.
//
//upstream:pkg/apis/certificates/validation.ValidateCertificateSigningRequestUpdate
func validateRequestUpdate(r, old *certificatesv1.CertificateSigningRequest) (errs field.ErrorList) {
	status := check.Object(&errs).Child("status")
	keepsConditions(status.Child("conditions"), r, old)
	addsNoApproval(status.Child("conditions"), r, old)
	check.Forbid(status.Child("certificate"), !bytes.Equal(r.Status.Certificate, old.Status.Certificate), "updates may not set certificate content")
	return errs
}

// requestStatus checks the conditions, and a changed certificate.
//
//upstream:pkg/apis/certificates/validation.ValidateCertificateSigningRequestStatusUpdate
//upstream:pkg/apis/certificates/validation.validateCertificateSigningRequestUpdate
func requestStatus(status check.Field, r, old *certificatesv1.CertificateSigningRequest) {
	requestConditions(status.Child("conditions"), r)
	if bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		return
	}
	if err := verifyCertificates(r.Status.Certificate); err != nil {
		status.Child("certificate").Invalid("<certificate data>", err.Error())
	}
}

//upstream:pkg/apis/certificates/validation.validateConditions
func requestConditions(list check.Field, r *certificatesv1.CertificateSigningRequest) {
	var seen fieldrules.Seen[certificatesv1.RequestConditionType]
	for i, c := range r.Status.Conditions {
		at := list.Index(i)
		check.Required(at.Child("type"), c.Type)
		allowed := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if slices.Contains(final, c.Type) {
			allowed = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		check.OneOf(at.Child("status"), c.Status, allowed...)
		first := seen.Add(c.Type)
		if !first {
			at.Child("type").Duplicate(c.Type)
		}
		if other := slices.Index(approvals, c.Type); other >= 0 && first && seen.Has(approvals[1-other]) {
			list.Report(field.Invalid(list.Path.Field(),
				`{conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]}`,
				"must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`").WithOrigin("zeroOrOneOf"))
		}
	}
}

// verifyCertificates checks that there is a PEM block, and that all blocks are certificates.
//
//upstream:pkg/apis/certificates/validation.validateCertificate
func verifyCertificates(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) > 0 {
			return errors.New("no PEM block headers are permitted")
		}
		n++
		switch parsed, err := x509.ParseCertificates(block.Bytes); {
		case err != nil:
			return err
		case len(parsed) == 0:
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
	}
	if n == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// keepsConditions checks that no final condition is removed.
//
//upstream:pkg/apis/certificates/validation.validateCertificateSigningRequestUpdate
func keepsConditions(at check.Field, r, old *certificatesv1.CertificateSigningRequest) {
	for _, t := range final {
		if len(conditionsOf(r, t)) < len(conditionsOf(old, t)) {
			at.Forbidden(fmt.Sprintf("updates may not remove a condition of type %q", t))
		}
	}
}

// addsNoApproval checks that the update neither approves nor denies the request.
//
//upstream:pkg/apis/certificates/validation.ValidateCertificateSigningRequestStatusUpdate
func addsNoApproval(at check.Field, r, old *certificatesv1.CertificateSigningRequest) {
	for _, t := range approvals {
		now, was := conditionsOf(r, t), conditionsOf(old, t)
		switch {
		case len(now) > len(was):
			at.Forbidden(fmt.Sprintf("updates may not add a condition of type %q", t))
		case len(now) == len(was) && !equality.Semantic(now, was):
			at.Forbidden(fmt.Sprintf("updates may not modify a condition of type %q", t))
		}
	}
}

//upstream:pkg/printers/internalversion.printCertificateSigningRequest
func requestRow(r *certificatesv1.CertificateSigningRequest) []any {
	requested := columns.None
	if s := r.Spec.ExpirationSeconds; s != nil {
		requested = duration.HumanDuration(time.Duration(*s) * time.Second)
	}
	return []any{r.Name, columns.Age(r.CreationTimestamp), columns.OrNone(r.Spec.SignerName), r.Spec.Username, requested, requestCell(r)}
}

// requestCell returns the cell for the conditions of a request.
//
//upstream:pkg/printers/internalversion.extractCSRStatus
func requestCell(r *certificatesv1.CertificateSigningRequest) string {
	var states []string
	switch {
	case len(conditionsOf(r, certificatesv1.CertificateDenied)) > 0:
		states = append(states, "Denied")
	case len(conditionsOf(r, certificatesv1.CertificateApproved)) > 0:
		states = append(states, "Approved")
	default:
		states = append(states, "Pending")
	}
	if len(conditionsOf(r, certificatesv1.CertificateFailed)) > 0 {
		states = append(states, "Failed")
	}
	if len(r.Status.Certificate) > 0 {
		states = append(states, "Issued")
	}
	return strings.Join(states, ",")
}
