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
		ValidateUpdate: func(r, old *certificatesv1.PodCertificateRequest) field.ErrorList {
			return fieldrules.ImmutableStruct(r.Spec, old.Spec, &fieldrules.Root, "spec")
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
func validatePodRequest(r *certificatesv1.PodCertificateRequest) field.ErrorList {
	s, w := &r.Spec, &fieldrules.Spec
	errs := fieldrules.SignerName(s.SignerName, w, "signerName")
	for key := range s.UnverifiedUserAnnotations {
		errs = append(errs, validation.IsDomainPrefixedKey(w.ChildField("unverifiedUserAnnotations"), strings.ToLower(key))...)
	}
	if err := apivalidation.ValidateAnnotationsSize(s.UnverifiedUserAnnotations); err != nil {
		errs = append(errs, field.TooLong(w.ChildField("unverifiedUserAnnotations"), "", apivalidation.TotalAnnotationSizeLimitB))
	}
	for _, owner := range [...]struct {
		field, name string
		value       any // the name, as the error quotes it
		uid         types.UID
	}{
		{"pod", s.PodName, s.PodName, s.PodUID}, {"serviceAccount", s.ServiceAccountName, s.ServiceAccountName, s.ServiceAccountUID},
		{"node", string(s.NodeName), s.NodeName, s.NodeUID},
	} {
		errs = append(errs, fieldrules.Invalid(fieldrules.NameIsSubdomain(owner.name, false), owner.value, w, owner.field+"Name")...)
		if owner.uid == "" {
			errs = append(errs, field.Invalid(w.ChildField(owner.field+"UID"), owner.uid, "must not be empty"))
		}
		if len(owner.uid) > maxUID {
			errs = append(errs, field.TooLong(w.ChildField(owner.field+"UID"), owner.uid, maxUID))
		}
	}
	if s.MaxExpirationSeconds == nil {
		return append(errs, field.Required(w.ChildField("maxExpirationSeconds"), "must be set"))
	}
	most := maxPodExpiration
	if host, _, _ := strings.Cut(s.SignerName, "/"); host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io") {
		most = maxKubernetesExpiration
	}
	if n := *s.MaxExpirationSeconds; n < minPodExpiration || n > most {
		errs = append(errs, field.Invalid(w.ChildField("maxExpirationSeconds"), n, fmt.Sprintf("must be in the range [%d, %d]", minPodExpiration, most)))
	}
	return append(errs, stubRequest(s.StubPKCS10Request)...)
}

// stubRequest checks the key and the signature of a request.
//
//upstream:pkg/apis/certificates/validation.validateStubPKCS10Request
func stubRequest(der []byte) field.ErrorList {
	at := fieldrules.Spec.Child("stubPKCS10Request")
	if len(der) == 0 {
		return field.ErrorList{field.Invalid(fieldrules.Spec.Field(), field.OmitValueType{},
			"exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")}
	}
	if len(der) > maxStubRequest {
		return field.ErrorList{field.TooLong(at.Field(), der, maxStubRequest)}
	}
	invalid := func(value any, why string) field.ErrorList {
		return field.ErrorList{field.Invalid(at.Field(), value, why)}
	}
	parsed, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return invalid(field.OmitValueType{}, "must be a valid PKCS#10 CSR")
	}
	switch key := parsed.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return invalid("curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			return invalid(fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")
		}
	default:
		return invalid(field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
	}
	if parsed.CheckSignature() != nil {
		return invalid(field.OmitValueType{}, "invalid signature")
	}
	return nil
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
func validatePodRequestStatus(r, old *certificatesv1.PodCertificateRequest) field.ErrorList {
	if len(apivalidation.ValidateObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta, fieldrules.Metadata.Field())) > 0 {
		return nil // the strategy reports these errors, and kube-apiserver reports no other
	}
	var errs field.ErrorList
	list := fieldrules.Status.Child("conditions")
	known := 0
	for i, c := range r.Status.Conditions {
		at := list.Child("[" + strconv.Itoa(i) + "]") // as kube-apiserver writes it
		if unknown := fieldrules.Supported(c.Type, &at, "type", outcomes...); len(unknown) > 0 {
			errs = append(errs, field.NotSupported(at.ChildField("type"), c.Type, outcomes))
			continue
		}
		if known++; known > 1 {
			errs = append(errs, field.Invalid(at.ChildField("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		if c.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(at.ChildField("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	errs = append(errs, metav1validation.ValidateConditions(r.Status.Conditions, list.Field())...)
	if len(errs) > 0 {
		return errs
	}
	unlessEqual := func(a, b certificatesv1.PodCertificateRequestStatus, why string) field.ErrorList {
		if equality.Semantic(a, b) {
			return nil
		}
		return field.ErrorList{field.Invalid(fieldrules.Status.Field(), field.OmitValueType{}, why)}
	}
	if outcomeOf(old) != "" {
		return unlessEqual(r.Status, old.Status, "immutable after PodCertificateRequest is issued, denied, or failed")
	}
	switch outcomeOf(r) {
	case "":
		return unlessEqual(r.Status, old.Status, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
	case certificatesv1.PodCertificateRequestConditionTypeIssued:
		return issued(r)
	}
	return unlessEqual(r.Status, certificatesv1.PodCertificateRequestStatus{Conditions: r.Status.Conditions},
		"non-condition status fields must be empty when denying or failing the PodCertificateRequest")
}

// issued checks the certificates of an issued request, up to the first errors.
//
//upstream:pkg/apis/certificates/validation.ValidatePodCertificateRequestStatusUpdate
func issued(r *certificatesv1.PodCertificateRequest) field.ErrorList {
	at := fieldrules.Status.Child("certificateChain")
	chain := r.Status.CertificateChain
	invalid := func(why string) field.ErrorList { return field.ErrorList{field.Invalid(at.Field(), chain, why)} }
	if len(chain) > maxCertificateChain {
		return field.ErrorList{field.TooLong(at.Field(), chain, maxCertificateChain)}
	}
	block, rest := pem.Decode([]byte(chain))
	if block == nil {
		return invalid("issued certificate chain must contain at least one certificate")
	}
	if block.Type != "CERTIFICATE" {
		return invalid("issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return invalid("leaf certificate does not parse as valid X.509")
	}
	errs := leafNames(leaf, &at)
	wanted, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		return append(errs, field.Invalid(fieldrules.Spec.ChildField("stubPKCS10Request"), field.OmitValueType{}, "must be a valid PKCS#10 CSR"))
	}
	if key, ok := wanted.PublicKey.(interface{ Equal(x crypto.PublicKey) bool }); ok && !key.Equal(leaf.PublicKey) {
		return append(errs, invalid("leaf certificate was not issued to the requested public key")...)
	}
	if errs = append(errs, times(&r.Status)...); len(errs) > 0 {
		return errs
	}
	if errs = lifetime(r, leaf); len(errs) > 0 {
		return errs
	}
	for block, rest = pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return invalid("issued certificate chain must consist entirely of CERTFICATE PEM blocks") // as kube-apiserver spells it
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return invalid("intermediate certificate does not parse as valid X.509")
		}
	}
	return nil
}

func leafNames(leaf *x509.Certificate, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range leaf.DNSNames {
		if name == "" {
			errs = append(errs, field.Invalid(w.Field(), name, "leaf certificate should not contain empty DNSName"))
		}
		if strings.Contains(name, "..") {
			errs = append(errs, field.Invalid(w.Field(), name, "leaf certificate's DNSName should not contain '..'"))
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(w.Field(), name, "leaf certificate's DNSName should not start or end with '.'"))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(w.Field(), address, "leaf certificate should not contain invalid EmailAddress"))
		}
	}
	return errs
}

// times checks that all times in a status are present.
//
//upstream:pkg/apis/certificates/validation.ValidatePodCertificateRequestStatusUpdate
func times(s *certificatesv1.PodCertificateRequestStatus) field.ErrorList {
	w := &fieldrules.Status
	var errs field.ErrorList
	const consistent = "must be present and consistent with the issued certificate"
	for _, required := range [...]struct {
		time *metav1.Time
		name string
		why  string
	}{{s.NotBefore, "notBefore", consistent}, {s.NotAfter, "notAfter", consistent},
		{s.BeginRefreshAt, "beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"}} {
		if required.time == nil {
			errs = append(errs, field.Required(w.ChildField(required.name), required.why))
		}
	}
	return errs
}

// lifetime checks the times in the status against the certificate, and its lifetime against the spec.
//
//upstream:pkg/apis/certificates/validation.ValidatePodCertificateRequestStatusUpdate
//upstream:pkg/apis/certificates/validation.timeNear
func lifetime(r *certificatesv1.PodCertificateRequest, leaf *x509.Certificate) field.ErrorList {
	s, w := &r.Status, &fieldrules.Status
	first := func(name string, value any, why string) field.ErrorList {
		return field.ErrorList{field.Invalid(w.ChildField(name), value, why)}
	}
	begin, end, refresh := s.NotBefore.Time, s.NotAfter.Time, s.BeginRefreshAt.Time
	d, most := leaf.NotAfter.Sub(leaf.NotBefore), *r.Spec.MaxExpirationSeconds
	switch skew := time.Since(begin).Abs(); {
	case !begin.Equal(leaf.NotBefore):
		return first("notBefore", begin, "must be set to the NotBefore time encoded in the leaf certificate")
	case skew >= certificateClockSkew:
		return first("notBefore", begin, "must be set to within 5 minutes of kube-apiserver's current time")
	case !end.Equal(leaf.NotAfter):
		return first("notAfter", end, "must be set to the NotAfter time encoded in the leaf certificate")
	case d < minCertificateLifetime:
		return first("certificateChain", d, "leaf certificate lifetime must be >= 1 hour")
	case d > time.Duration(most)*time.Second:
		return first("certificateChain", d, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", most))
	case refresh.Before(begin.Add(certificateRefreshMargin)):
		return first("beginRefreshAt", refresh, "must be at least 10 minutes after status.notBefore")
	case refresh.After(end.Add(-certificateRefreshMargin)):
		return first("beginRefreshAt", refresh, "must be at least 10 minutes before status.notAfter")
	}
	return nil
}
