package fieldrules

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DNSLabel checks a name without dots.
func DNSLabel(s string, fldPath *Path, name string) field.ErrorList {
	if plainLabel(s) {
		return nil
	}
	if s == "" {
		return field.ErrorList{field.Required(fldPath.ChildField(name), "")}
	}
	return Invalid(validation.IsDNS1123Label(s), s, fldPath, name)
}

// plainLabel is a fast path: it accepts most names that are DNS labels, and nothing else.
func plainLabel(s string) bool {
	if len(s) == 0 || len(s) > validation.DNS1123LabelMaxLength || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// DNSName checks a name that may have dots.
func DNSName(s string, fldPath *Path, name string) field.ErrorList {
	if plainLabel(s) {
		return nil
	}
	return Invalid(validation.IsDNS1123Subdomain(s), s, fldPath, name)
}

// NameIsSubdomain is the rule for names of most kinds; labels need no regular expression.
func NameIsSubdomain(name string, prefix bool) []string {
	if plainLabel(name) {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// NameIsLabel is the rule for names that are DNS labels.
func NameIsLabel(name string, prefix bool) []string {
	if plainLabel(name) {
		return nil
	}
	return apivalidation.NameIsDNSLabel(name, prefix)
}

// NameIsPathSegment is the rule for names that can be any segment of a URL's path.
func NameIsPathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// WholeNameIsPathSegment is NameIsPathSegment for kinds that check a prefix as they check a name.
func WholeNameIsPathSegment(name string, _ bool) []string { return content.IsPathSegmentName(name) }

// QualifiedName checks a name such as example.com/name.
func QualifiedName[S ~string](s S, fldPath *Path, name string) field.ErrorList {
	if plainQualified(string(s)) {
		return nil
	}
	return Invalid(validation.IsQualifiedName(string(s)), s, fldPath, name)
}

// plainQualified is a fast path: it accepts most qualified names, and nothing else.
func plainQualified(s string) bool {
	domain, name, ok := strings.Cut(s, "/")
	if !ok {
		return plainLabel(s)
	}
	if len(domain) > validation.DNS1123SubdomainMaxLength || !plainLabel(name) {
		return false
	}
	for part := range strings.SplitSeq(domain, ".") {
		if !plainLabel(part) {
			return false
		}
	}
	return true
}

// Limits of the name of a signer, in bytes: the domain, and the whole name. The path has room for a
// label and a subdomain.
const (
	maxSignerDomain = validation.DNS1123SubdomainMaxLength
	maxSigner       = maxSignerDomain + 1 + validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 1
)

// SignerName checks the name of a signer, such as example.com/signer.
//
//upstream:pkg/apis/core/validation.ValidateSignerName
func SignerName(s string, w *Path, name string) field.ErrorList {
	if s == "" {
		return field.ErrorList{field.Required(w.ChildField(name), "")}
	}
	domain, path, ok := strings.Cut(s, "/")
	if !ok || strings.Contains(path, "/") {
		return field.ErrorList{field.Invalid(w.ChildField(name), s, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	if len(domain) > maxSignerDomain {
		errs = append(errs, field.TooLong(w.ChildField(name), "", maxSignerDomain))
	}
	errs = append(errs, signerLabels(domain, validation.IsDNS1123Label, w, name)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(w.ChildField(name), domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, signerLabels(path, validation.IsDNS1123Subdomain, w, name)...)
	if len(s) > maxSigner {
		errs = append(errs, field.TooLong(w.ChildField(name), "", maxSigner))
	}
	return errs
}

// signerLabels returns the errors of the first invalid label of a signer's domain or path.
func signerLabels(part string, check func(string) []string, w *Path, name string) field.ErrorList {
	var errs field.ErrorList
	for label := range strings.SplitSeq(part, ".") {
		for _, m := range check(label) {
			errs = append(errs, field.Invalid(w.ChildField(name), part, fmt.Sprintf("validating label %q: %s", label, m)))
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// AttacherName is DriverName for a field that kube-apiserver checks by generated code, which has other messages.
func AttacherName(s string, w *Path, name string) field.ErrorList {
	if s == "" {
		return field.ErrorList{field.Required(w.ChildField(name), "")}
	}
	var errs field.ErrorList
	if len(s) > validation.DNS1123LabelMaxLength {
		errs = append(errs, field.TooLongCharacters(w.ChildField(name), "", validation.DNS1123LabelMaxLength))
	}
	//lint:ignore SA1019 Kubernetes checks driver names by this function
	return append(errs, Invalid(content.IsDNS1123SubdomainCaseless(s), s, w, name)...)
}

// DriverName checks the name of a CSI driver.
//
//upstream:pkg/apis/core/validation.ValidateCSIDriverName
func DriverName(s string, w *Path, name string) field.ErrorList {
	if s == "" {
		return field.ErrorList{field.Required(w.ChildField(name), "")}
	}
	var errs field.ErrorList
	if len(s) > validation.DNS1123LabelMaxLength {
		errs = append(errs, field.TooLong(w.ChildField(name), "", validation.DNS1123LabelMaxLength))
	}
	return append(errs, Invalid(validation.IsDNS1123Subdomain(strings.ToLower(s)), s, w, name)...)
}
