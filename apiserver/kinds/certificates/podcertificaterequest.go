package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// PodCertificateRequests describes the kind PodCertificateRequest.
//
//upstream:pkg/registry/certificates/podcertificaterequest.Strategy
//upstream:pkg/registry/certificates/podcertificaterequest.StatusStrategy
//upstream:pkg/apis/certificates/v1.addConversionFuncs
//upstream:pkg/printers/internalversion.printPodCertificateRequest
func PodCertificateRequests() kinds.Kind {
	doc := certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return kinds.Of[*certificatesv1.PodCertificateRequest]{
		Type: &certificatesv1.PodCertificateRequest{}, List: &certificatesv1.PodCertificateRequestList{},
		Plural: "podcertificaterequests", NoUnconditionalUpdate: true,
		Name: fieldrules.NameIsSubdomain,
		Default: func(r *certificatesv1.PodCertificateRequest) {
			fieldrules.DefaultPointer(&r.Spec.MaxExpirationSeconds, defaultPodExpiration)
		},
		ValidateCreate: validatePodRequest,
		ValidateUpdate: func(r, old *certificatesv1.PodCertificateRequest) (errs field.ErrorList) {
			check.ImmutableStruct(check.Object(&errs).Child("spec"), r.Spec, old.Spec)
			return errs
		},
		Status:         true,
		PrepareStatus:  kinds.KeepMetadata[*certificatesv1.PodCertificateRequest],
		StatusReset:    []string{"metadata"},
		ValidateStatus: validatePodRequestStatus,
		Fields: func(r *certificatesv1.PodCertificateRequest) fields.Set {
			return fields.Set{"spec.signerName": r.Spec.SignerName, "spec.podName": r.Spec.PodName, "spec.nodeName": string(r.Spec.NodeName)}
		},
		Bare: true,
		Columns: []metav1.TableColumnDefinition{
			columns.NameColumn,
			columns.Column("PodName", "string", doc["podName"]),
			columns.Column("ServiceAccountName", "string", doc["serviceAccountName"]),
			columns.Column("NodeName", "string", doc["nodeName"]),
			columns.Column("SignerName", "string", doc["signerName"]),
			columns.Column("State", "string", "Whether the request is pending, issued, denied or failed."),
			columns.Column("UnverifiedUserAnnotations", "string", doc["unverifiedUserAnnotations"]),
		},
		Row: func(r *certificatesv1.PodCertificateRequest) []any {
			state := "Pending"
			for _, c := range r.Status.Conditions {
				switch c.Type {
				case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
					certificatesv1.PodCertificateRequestConditionTypeFailed:
					state = c.Type
				}
			}
			return []any{r.Name, r.Spec.PodName, r.Spec.ServiceAccountName, string(r.Spec.NodeName), r.Spec.SignerName, state,
				columns.LabelCell(r.Spec.UnverifiedUserAnnotations)}
		},
	}
}

// The limits of spec.maxExpirationSeconds, and of sizes in bytes.
const (
	defaultPodExpiration     int32 = 86400
	minPodExpiration         int32 = 3600
	maxKubernetesExpiration  int32 = 86400
	maxPodExpiration         int32 = 91 * 86400
	maxUID                         = 128
	maxStubRequest                 = 10 << 10
	maxCertificateChain            = 100 << 10
	minCertificateLifetime         = time.Hour
	certificateClockSkew           = 5 * time.Minute
	certificateRefreshMargin       = 10 * time.Minute
)

// validatePodRequest checks the spec: the signer, the key with its proof of possession, and the pod.
//
//upstream:pkg/apis/certificates/validation.ValidatePodCertificateRequestCreate
//upstream:pkg/apis/certificates/validation.ValidatePodCertificateRequestUpdate
func validatePodRequest(r *certificatesv1.PodCertificateRequest) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &r.Spec
	annotations, expiration := spec.Child("unverifiedUserAnnotations"), spec.Child("maxExpirationSeconds")
	check.SignerName(spec.Child("signerName"), s.SignerName)
	for key := range s.UnverifiedUserAnnotations {
		annotations.Report(validation.IsDomainPrefixedKey(annotations.Path.Field(), strings.ToLower(key))...)
	}
	if err := apivalidation.ValidateAnnotationsSize(s.UnverifiedUserAnnotations); err != nil {
		annotations.TooLong(apivalidation.TotalAnnotationSizeLimitB)
	}
	check.DNSName(spec.Child("podName"), s.PodName)
	uid(spec.Child("podUID"), s.PodUID)
	check.DNSName(spec.Child("serviceAccountName"), s.ServiceAccountName)
	uid(spec.Child("serviceAccountUID"), s.ServiceAccountUID)
	check.Messages(spec.Child("nodeName"), s.NodeName, fieldrules.NameIsSubdomain(string(s.NodeName), false))
	uid(spec.Child("nodeUID"), s.NodeUID)
	if s.MaxExpirationSeconds == nil {
		expiration.Required("must be set")
		return errs
	}
	most := maxPodExpiration
	if host, _, _ := strings.Cut(s.SignerName, "/"); host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io") {
		most = maxKubernetesExpiration
	}
	if n := *s.MaxExpirationSeconds; n < minPodExpiration || n > most {
		expiration.Invalidf(n, "must be in the range [%d, %d]", minPodExpiration, most)
	}
	stubRequest(spec, s.StubPKCS10Request)
	return errs
}

func uid(at check.Field, id types.UID) {
	if id == "" {
		at.Invalid(id, "must not be empty")
	}
	if len(id) > maxUID {
		at.TooLong(maxUID)
	}
}

// stubRequest checks the key and the signature of a request.
//
//upstream:pkg/apis/certificates/validation.validateStubPKCS10Request
func stubRequest(spec check.Field, der []byte) {
	at := spec.Child("stubPKCS10Request")
	switch {
	case len(der) == 0:
		spec.Invalid(field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")
		return
	case len(der) > maxStubRequest:
		at.TooLong(maxStubRequest)
		return
	}
	parsed, err := x509.ParseCertificateRequest(der)
	if err != nil {
		at.Invalid(field.OmitValueType{}, "must be a valid PKCS#10 CSR")
		return
	}
	if supportedKey(at, parsed.PublicKey) && parsed.CheckSignature() != nil {
		at.Invalid(field.OmitValueType{}, "invalid signature")
	}
}

// supportedKey checks the type and the size of a key, and reports whether both are supported.
//
//upstream:pkg/apis/certificates/validation.validateStubPKCS10Request
func supportedKey(at check.Field, key any) bool {
	switch key := key.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			at.Invalid("curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")
			return false
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			at.Invalid(fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")
			return false
		}
	default:
		at.Invalid(field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
		return false
	}
	return true
}

// outcomes are the types of the conditions that end a request.
var outcomes = []string{
	certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
	certificatesv1.PodCertificateRequestConditionTypeFailed,
}

// outcomeOf returns the type of the condition that ended a request, or an empty string.
//
//upstream:pkg/apis/certificates/validation.pcrIsIssued
//upstream:pkg/apis/certificates/validation.pcrIsDenied
//upstream:pkg/apis/certificates/validation.pcrIsFailed
func outcomeOf(r *certificatesv1.PodCertificateRequest) string {
	for _, o := range outcomes {
		if meta.IsStatusConditionTrue(r.Status.Conditions, o) {
			return o
		}
	}
	return ""
}

// validatePodRequestStatus checks that the status changes once, to one of the outcomes.
//
//upstream:pkg/apis/certificates/validation.ValidatePodCertificateRequestStatusUpdate
func validatePodRequestStatus(r, old *certificatesv1.PodCertificateRequest) (errs field.ErrorList) {
	if len(apivalidation.ValidateObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta, fieldrules.Metadata.Field())) > 0 {
		return nil // the strategy reports these errors, and kube-apiserver reports no other
	}
	status := check.Object(&errs).Child("status")
	list := status.Child("conditions")
	known := 0
	for i, c := range r.Status.Conditions {
		at := list.Child("[" + strconv.Itoa(i) + "]") // as kube-apiserver writes it
		if !slices.Contains(outcomes, c.Type) {
			at.Child("type").NotSupported(c.Type, outcomes...)
			continue
		}
		if known++; known > 1 {
			at.Child("type").Invalid(c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`)
		}
		check.Supported(at.Child("status"), c.Status, metav1.ConditionTrue)
	}
	list.Report(metav1validation.ValidateConditions(r.Status.Conditions, list.Path.Field())...)
	if len(errs) > 0 {
		return errs
	}
	must := func(s certificatesv1.PodCertificateRequestStatus, why string) {
		if !equality.Semantic(r.Status, s) {
			status.Invalid(field.OmitValueType{}, why)
		}
	}
	switch outcome := outcomeOf(r); {
	case outcomeOf(old) != "":
		must(old.Status, "immutable after PodCertificateRequest is issued, denied, or failed")
	case outcome == "":
		must(old.Status, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
	case outcome == certificatesv1.PodCertificateRequestConditionTypeIssued:
		return issued(r)
	default:
		must(certificatesv1.PodCertificateRequestStatus{Conditions: r.Status.Conditions},
			"non-condition status fields must be empty when denying or failing the PodCertificateRequest")
	}
	return errs
}

// issued checks the certificates of an issued request, up to the first errors.
//
//upstream:pkg/apis/certificates/validation.ValidatePodCertificateRequestStatusUpdate
func issued(r *certificatesv1.PodCertificateRequest) (errs field.ErrorList) {
	object, chain := check.Object(&errs), r.Status.CertificateChain
	status := object.Child("status")
	at := status.Child("certificateChain")
	block, rest := pem.Decode([]byte(chain))
	switch {
	case len(chain) > maxCertificateChain:
		at.TooLong(maxCertificateChain)
		return errs
	case block == nil:
		at.Invalid(chain, "issued certificate chain must contain at least one certificate")
		return errs
	case block.Type != "CERTIFICATE":
		at.Invalid(chain, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
		return errs
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		at.Invalid(chain, "leaf certificate does not parse as valid X.509")
		return errs
	}
	leafNames(at, leaf)
	wanted, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		object.Child("spec").Child("stubPKCS10Request").Invalid(field.OmitValueType{}, "must be a valid PKCS#10 CSR")
		return errs
	}
	if key, ok := wanted.PublicKey.(interface{ Equal(x crypto.PublicKey) bool }); ok && !key.Equal(leaf.PublicKey) {
		at.Invalid(chain, "leaf certificate was not issued to the requested public key")
		return errs
	}
	if times(status, &r.Status); len(errs) > 0 {
		return errs
	}
	lifetime(status, r, leaf)
	for block, rest = pem.Decode(rest); block != nil && len(errs) == 0; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			at.Invalid(chain, "issued certificate chain must consist entirely of CERTFICATE PEM blocks") // as kube-apiserver spells it
		} else if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			at.Invalid(chain, "intermediate certificate does not parse as valid X.509")
		}
	}
	return errs
}

func leafNames(at check.Field, leaf *x509.Certificate) {
	for _, name := range leaf.DNSNames {
		if name == "" {
			at.Invalid(name, "leaf certificate should not contain empty DNSName")
		}
		if strings.Contains(name, "..") {
			at.Invalid(name, "leaf certificate's DNSName should not contain '..'")
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			at.Invalid(name, "leaf certificate's DNSName should not start or end with '.'")
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			at.Invalid(address, "leaf certificate should not contain invalid EmailAddress")
		}
	}
}

// times checks that all times in a status are present.
//
//upstream:pkg/apis/certificates/validation.ValidatePodCertificateRequestStatusUpdate
func times(status check.Field, s *certificatesv1.PodCertificateRequestStatus) {
	if s.NotBefore == nil {
		status.Child("notBefore").Required("must be present and consistent with the issued certificate")
	}
	if s.NotAfter == nil {
		status.Child("notAfter").Required("must be present and consistent with the issued certificate")
	}
	if s.BeginRefreshAt == nil {
		status.Child("beginRefreshAt").Required("must be present and in the range [notbefore+10min, notafter-10min]")
	}
}

// lifetime checks the times in the status against the certificate, and its lifetime against the spec.
//
//upstream:pkg/apis/certificates/validation.ValidatePodCertificateRequestStatusUpdate
//upstream:pkg/apis/certificates/validation.timeNear
func lifetime(status check.Field, r *certificatesv1.PodCertificateRequest, leaf *x509.Certificate) {
	s, chain := &r.Status, status.Child("certificateChain")
	notBefore, notAfter, beginRefresh := status.Child("notBefore"), status.Child("notAfter"), status.Child("beginRefreshAt")
	begin, end, refresh := s.NotBefore.Time, s.NotAfter.Time, s.BeginRefreshAt.Time
	d, most := leaf.NotAfter.Sub(leaf.NotBefore), *r.Spec.MaxExpirationSeconds
	switch skew := time.Since(begin).Abs(); {
	case !begin.Equal(leaf.NotBefore):
		notBefore.Invalid(begin, "must be set to the NotBefore time encoded in the leaf certificate")
	case skew >= certificateClockSkew:
		notBefore.Invalid(begin, "must be set to within 5 minutes of kube-apiserver's current time")
	case !end.Equal(leaf.NotAfter):
		notAfter.Invalid(end, "must be set to the NotAfter time encoded in the leaf certificate")
	case d < minCertificateLifetime:
		chain.Invalid(d, "leaf certificate lifetime must be >= 1 hour")
	case d > time.Duration(most)*time.Second:
		chain.Invalidf(d, "leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", most)
	case refresh.Before(begin.Add(certificateRefreshMargin)):
		beginRefresh.Invalid(refresh, "must be at least 10 minutes after status.notBefore")
	case refresh.After(end.Add(-certificateRefreshMargin)):
		beginRefresh.Invalid(refresh, "must be at least 10 minutes before status.notAfter")
	}
}
