package podspec

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The grammar of the names of images. A name without a registry is a name in Docker's registry.
const (
	imageComponent = `[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*`
	imagePath      = imageComponent + `(?:/` + imageComponent + `)*`
	domainLabel    = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	imageDomain    = `(?:` + domainLabel + `(?:\.` + domainLabel + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
)

var (
	imageRest   = regexp.MustCompile(`^(` + imagePath + `)(?::([\w][\w.-]{0,127}))?(?:@(.+))?$`)
	imageServer = regexp.MustCompile(`^` + imageDomain + `$`)
	imageDigest = regexp.MustCompile(`^(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})$`)
	imageID     = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

const (
	dockerRegistry  = "docker.io"
	dockerIndex     = "index.docker.io"
	maxImagePath    = 255
	latestTag       = "latest"
	officialImages  = "library/"
	localImageStore = "localhost"
)

// pullPolicyOf returns the default pull policy of an image: Always for the tag "latest", or neither a tag nor a digest.
//
//upstream:pkg/apis/core/v1.SetDefaults_Container
//upstream:pkg/util/parsers.ParseImageName
func pullPolicyOf(image string) corev1.PullPolicy {
	// Most images have a tag. Whether the name is valid then does not matter, and the regular expressions are slow.
	if _, tag, ok := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":"); ok && tag != latestTag && !strings.Contains(image, "@") {
		return corev1.PullIfNotPresent
	}
	if imageID.MatchString(image) {
		return corev1.PullIfNotPresent
	}
	domain, rest, _ := strings.Cut(image, "/")
	if !strings.Contains(image, "/") || domain != localImageStore && !strings.ContainsAny(domain, ".:") &&
		strings.ToLower(domain) == domain {
		domain, rest = dockerRegistry, image
	}
	if (domain == dockerRegistry || domain == dockerIndex) && !strings.Contains(rest, "/") {
		rest = officialImages + rest
	}
	parts := imageRest.FindStringSubmatch(rest)
	if parts == nil || len(parts[1]) > maxImagePath || !imageServer.MatchString(domain) {
		return corev1.PullIfNotPresent
	}
	tag, digest := parts[2], parts[3]
	if digest != "" && !imageDigest.MatchString(digest) {
		return corev1.PullIfNotPresent
	}
	if tag == latestTag || tag == "" && digest == "" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
