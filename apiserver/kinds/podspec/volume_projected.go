package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// projection has the state of the checks of a projected volume, which may not have a path twice.
type projection struct {
	*rules
	volume check.Field
	paths  fieldrules.Seen[string]
}

// projected checks the sources of a projected volume.
//
//upstream:pkg/apis/core/validation.validateProjectedVolumeSource
//upstream:pkg/apis/core/validation.validateProjectionSources
func (r *rules) projected(at check.Field, v *corev1.ProjectedVolumeSource) {
	mode(at.Child("defaultMode"), v.DefaultMode)
	p := projection{rules: r, volume: at}
	for i := range v.Sources {
		p.source(at.Child("sources").Index(i), &v.Sources[i])
	}
}

// place notes the path of a file. value is what the error for a second file at the path shows.
func (p *projection) place(path, value string) {
	if !p.paths.Add(path) {
		p.volume.Invalid(value, "conflicting duplicate paths")
	}
}

// source checks one source of the volume, which has one kind.
func (p *projection) source(at check.Field, s *corev1.VolumeProjection) {
	sources := 0
	if s.Secret != nil {
		sources++
		p.object(at.Child("secret"), s.Secret.Name, s.Secret.Items)
	}
	if s.ConfigMap != nil {
		sources++
		p.object(at.Child("configMap"), s.ConfigMap.Name, s.ConfigMap.Items)
	}
	if s.DownwardAPI != nil {
		sources++
		downward(at.Child("downwardAPI"), s.DownwardAPI.Items)
		for _, f := range s.DownwardAPI.Items {
			if f.Path != "" {
				p.place(f.Path, f.Path)
			}
		}
	}
	if s.ServiceAccountToken != nil {
		sources++
		p.token(at.Child("serviceAccountToken"), s.ServiceAccountToken)
	}
	if s.ClusterTrustBundle != nil {
		sources++
		p.trustBundle(at.Child("clusterTrustBundle"), s.ClusterTrustBundle)
	}
	if s.PodCertificate != nil {
		sources++
		p.certificate(at.Child("podCertificate"), s.PodCertificate)
	}
	check.Forbid(at, sources > 1, "may not specify more than 1 volume type per source")
}

// object checks the files of a secret or a config map.
func (p *projection) object(at check.Field, name string, items []corev1.KeyToPath) {
	check.Required(at.Child("name"), name)
	files(at, items, nil)
	for _, item := range items {
		if item.Path != "" {
			p.place(item.Path, name)
		}
	}
}

// token checks a token. Its path is reported as the path of the volume.
func (p *projection) token(at check.Field, t *corev1.ServiceAccountTokenProjection) {
	switch seconds, expiration := t.ExpirationSeconds, at.Child("expirationSeconds"); {
	case seconds == nil:
		expiration.Required("")
	case *seconds < 600:
		expiration.Invalid(*seconds, "may not specify a duration less than 10 minutes")
	case *seconds > 1<<32:
		expiration.Invalid(*seconds, "may not specify a duration larger than 2^32 seconds")
	}
	if t.Path == "" || !p.anyTokenPath {
		fileName(p.volume.Child("path"), t.Path)
	}
}

// trustBundle checks a source that is a trust bundle of a name, or all trust bundles of a signer.
func (p *projection) trustBundle(at check.Field, b *corev1.ClusterTrustBundleProjection) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		at.Invalid(fieldrules.Internal(*b), "only one of name and signerName may be used")
	case b.Name != nil:
		if *b.Name == "" {
			at.Child("name").Required("must be a valid object name")
		}
		for _, m := range trustBundleName(*b.Name) {
			at.Child("name").Invalid(*b.Name, "not a valid clustertrustbundlename: "+m)
		}
		if b.LabelSelector != nil {
			at.Child("labelSelector").Invalid(b.LabelSelector, "labelSelector must be unset if name is specified")
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			at.Child("signerName").Required("must be a valid signer name")
		}
		check.SignerName(at.Child("signerName"), *b.SignerName)
		check.LabelSelector(at.Child("labelSelector"), b.LabelSelector)
	default:
		at.Required("either name or signerName must be specified")
	}
	fileName(at.Child("path"), b.Path)
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

// certificate checks a source that is a certificate for the pod.
func (p *projection) certificate(at check.Field, c *corev1.PodCertificateProjection) {
	check.SignerName(at.Child("signerName"), c.SignerName)
	annotations := at.Child("userAnnotations")
	for _, key := range fieldrules.SortedKeys(c.UserAnnotations) {
		annotations.Report(validation.IsDomainPrefixedKey(annotations.Path.Field(), strings.ToLower(key))...)
	}
	if apivalidation.ValidateAnnotationsSize(c.UserAnnotations) != nil {
		annotations.TooLong(apivalidation.TotalAnnotationSizeLimitB)
	}
	check.Supported(at.Child("keyType"), c.KeyType, "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
	if seconds := c.MaxExpirationSeconds; seconds != nil {
		longest := int32(maxCertificate)
		if host, _, _ := strings.Cut(c.SignerName, "/"); host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io") {
			longest = maxKubernetesCertificate
		}
		if *seconds < minCertificate {
			at.Child("maxExpirationSeconds").Invalidf(*seconds, "if provided, maxExpirationSeconds must be >= %d", minCertificate)
		}
		if *seconds > longest {
			at.Child("maxExpirationSeconds").Invalidf(*seconds, "if provided, maxExpirationSeconds must be <= %d", longest)
		}
	}
	files := 0
	for _, file := range [...]struct{ name, path string }{{"credentialBundlePath", c.CredentialBundlePath},
		{"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath}} {
		if file.path != "" {
			files++
			nonReserved(at.Child(file.name), file.path)
			p.place(file.path, file.path)
		}
	}
	if files == 0 {
		at.Required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}
