package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// projection are the checks of the sources of a projected volume, which may not have a path twice.
type projection struct {
	*rules
	volume *fieldrules.Path
	paths  fieldrules.Seen[string]
	errs   field.ErrorList
}

// projected checks the sources of a projected volume.
//
//upstream:pkg/apis/core/validation.validateProjectedVolumeSource
//upstream:pkg/apis/core/validation.validateProjectionSources
func (r *rules) projected(v *corev1.ProjectedVolumeSource, fldPath *fieldrules.Path) field.ErrorList {
	p := projection{rules: r, volume: fldPath, errs: mode(v.DefaultMode, fldPath, "defaultMode")}
	list := fldPath.Child("sources")
	for i := range v.Sources {
		at := list.Index(i)
		p.source(&v.Sources[i], &at)
	}
	return p.errs
}

func (p *projection) add(errs ...*field.Error) { p.errs = append(p.errs, errs...) }

// place notes the path of a file. value is what the error for a second file at the path shows.
func (p *projection) place(path, value string) {
	if !p.paths.Add(path) {
		p.add(field.Invalid(p.volume.Field(), value, "conflicting duplicate paths"))
	}
}

// source checks one source of the volume, which has one kind.
func (p *projection) source(s *corev1.VolumeProjection, fldPath *fieldrules.Path) {
	sources := 0
	if s.Secret != nil {
		sources++
		at := fldPath.Child("secret")
		p.object(s.Secret.Name, s.Secret.Items, &at)
	}
	if s.ConfigMap != nil {
		sources++
		at := fldPath.Child("configMap")
		p.object(s.ConfigMap.Name, s.ConfigMap.Items, &at)
	}
	if s.DownwardAPI != nil {
		sources++
		at := fldPath.Child("downwardAPI")
		p.add(downward(s.DownwardAPI.Items, &at)...)
		for _, f := range s.DownwardAPI.Items {
			if f.Path != "" {
				p.place(f.Path, f.Path)
			}
		}
	}
	if s.ServiceAccountToken != nil {
		sources++
		at := fldPath.Child("serviceAccountToken")
		p.token(s.ServiceAccountToken, &at)
	}
	if s.ClusterTrustBundle != nil {
		sources++
		at := fldPath.Child("clusterTrustBundle")
		p.trustBundle(s.ClusterTrustBundle, &at)
	}
	if s.PodCertificate != nil {
		sources++
		at := fldPath.Child("podCertificate")
		p.certificate(s.PodCertificate, &at)
	}
	if sources > 1 {
		p.add(field.Forbidden(fldPath.Field(), "may not specify more than 1 volume type per source"))
	}
}

// object checks the files of a secret or a config map.
func (p *projection) object(name string, items []corev1.KeyToPath, at *fieldrules.Path) {
	p.add(fieldrules.Required(name, at, "name")...)
	p.add(files(items, nil, at)...)
	for _, item := range items {
		if item.Path != "" {
			p.place(item.Path, name)
		}
	}
}

// token checks a token. Its path is reported as the path of the volume.
func (p *projection) token(t *corev1.ServiceAccountTokenProjection, at *fieldrules.Path) {
	switch seconds := t.ExpirationSeconds; {
	case seconds == nil:
		p.add(field.Required(at.ChildField("expirationSeconds"), ""))
	case *seconds < 600:
		p.add(field.Invalid(at.ChildField("expirationSeconds"), *seconds, "may not specify a duration less than 10 minutes"))
	case *seconds > 1<<32:
		p.add(field.Invalid(at.ChildField("expirationSeconds"), *seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if t.Path == "" || !p.anyTokenPath {
		p.add(fileName(t.Path, p.volume)...)
	}
}

// trustBundle checks a source that is a trust bundle of a name, or all trust bundles of a signer.
func (p *projection) trustBundle(b *corev1.ClusterTrustBundleProjection, at *fieldrules.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		p.add(field.Invalid(at.Field(), fieldrules.Internal(*b), "only one of name and signerName may be used"))
	case b.Name != nil:
		if *b.Name == "" {
			p.add(field.Required(at.ChildField("name"), "must be a valid object name"))
		}
		for _, m := range trustBundleName(*b.Name) {
			p.add(field.Invalid(at.ChildField("name"), *b.Name, fmt.Sprintf("not a valid clustertrustbundlename: %v", m)))
		}
		if b.LabelSelector != nil {
			p.add(field.Invalid(at.ChildField("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			p.add(field.Required(at.ChildField("signerName"), "must be a valid signer name"))
		}
		p.add(fieldrules.SignerName(*b.SignerName, at, "signerName")...)
		p.add(fieldrules.LabelSelector(b.LabelSelector, at, "labelSelector")...)
	default:
		p.add(field.Required(at.Field(), "either name or signerName must be specified"))
	}
	p.add(fileName(b.Path, at)...)
	p.place(b.Path, b.Path)
}

// trustBundleName returns the errors of the name of a trust bundle, which begins with the name of its signer if it has one.
//
//upstream:pkg/apis/core/validation.ValidateClusterTrustBundleName
func trustBundleName(name string) []string {
	colon := strings.LastIndexByte(name, ':')
	if prefix := name[:max(colon, 0)]; strings.Contains(prefix, "/") {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s:",
			strings.ReplaceAll(prefix, ":", "/"), strings.ReplaceAll(prefix, "/", ":"))}
	}
	return fieldrules.NameIsSubdomain(name[colon+1:], false)
}

// The bounds of the lifetime of a certificate, in seconds.
const (
	minCertificate           = 60 * 60
	maxCertificate           = 91 * 24 * 60 * 60
	maxKubernetesCertificate = 24 * 60 * 60
)

var keyTypes = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

// certificate checks a source that is a certificate for the pod.
func (p *projection) certificate(c *corev1.PodCertificateProjection, at *fieldrules.Path) {
	p.add(fieldrules.SignerName(c.SignerName, at, "signerName")...)
	annotations := at.ChildField("userAnnotations")
	for _, key := range fieldrules.SortedKeys(c.UserAnnotations) {
		p.add(validation.IsDomainPrefixedKey(annotations, strings.ToLower(key))...)
	}
	if apivalidation.ValidateAnnotationsSize(c.UserAnnotations) != nil {
		p.add(field.TooLong(annotations, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	if !slices.Contains(keyTypes, c.KeyType) {
		p.add(field.NotSupported(at.ChildField("keyType"), c.KeyType, keyTypes))
	}
	if seconds := c.MaxExpirationSeconds; seconds != nil {
		longest := int32(maxCertificate)
		if host, _, _ := strings.Cut(c.SignerName, "/"); host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io") {
			longest = maxKubernetesCertificate
		}
		if *seconds < minCertificate {
			p.add(field.Invalid(at.ChildField("maxExpirationSeconds"), *seconds,
				fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", minCertificate)))
		}
		if *seconds > longest {
			p.add(field.Invalid(at.ChildField("maxExpirationSeconds"), *seconds,
				fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", longest)))
		}
	}
	files := 0
	for _, file := range [...]struct{ name, path string }{{"credentialBundlePath", c.CredentialBundlePath},
		{"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath}} {
		if file.path != "" {
			files++
			p.add(nonReserved(file.path, at, file.name)...)
			p.place(file.path, file.path)
		}
	}
	if files == 0 {
		p.add(field.Required(at.Field(), "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
}
