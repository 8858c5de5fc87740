package pods

import (
	"fmt"
	"strings"

	"flyball.dev/controllers/pods/runtime"
)

// DefaultMissingImages are the default patterns of images that cannot be pulled: images with the tag 404, and images of
// registries in the top-level domain invalid.
var DefaultMissingImages = []string{"*:404", "*.invalid/*", "*.invalid:*/*"}

// The reasons why a container waits for its image.
const (
	//upstream:pkg/kubelet/images.ErrImagePull
	errImagePull = "ErrImagePull"
	//upstream:pkg/kubelet/images.ErrImagePullBackOff
	imagePullBackOff = "ImagePullBackOff"
	//upstream:pkg/kubelet/images.ErrImageNeverPull
	errImageNeverPull = "ErrImageNeverPull"
)

// isMissing reports whether an image matches one of the patterns.
func isMissing(image string, patterns []string) bool {
	for _, p := range patterns {
		if runtime.Match(p, image) {
			return true
		}
	}
	return false
}

// pullError returns the error of a container runtime that cannot pull an image.
func pullError(image string) string {
	ref := reference(image)
	host, path, _ := strings.Cut(ref, "/")
	name, _, _ := strings.Cut(host, ":")
	code, why := "NotFound", ref+": not found"
	if strings.HasSuffix(name, ".invalid") {
		repository, version := split(path)
		code = "Unknown"
		why = fmt.Sprintf(`failed to do request: Head "https://%s/v2/%s/manifests/%s": dial tcp: lookup %s: no such host`,
			host, repository, version, name)
	}
	return fmt.Sprintf("rpc error: code = %s desc = failed to pull and unpack image %q: "+
		"failed to resolve reference %q: %s", code, ref, ref, why)
}

// reference returns the full name of an image, with its registry and a tag or a digest.
//
//upstream:pkg/kubelet/images.applyDefaultImageTag
func reference(image string) string {
	host, _, ok := strings.Cut(image, "/")
	switch {
	case !ok:
		image = "docker.io/library/" + image
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		image = "docker.io/" + image
	}
	if _, version := split(image); version == "" {
		image += ":latest"
	}
	return image
}

// split splits an image into its name and its tag or digest.
func split(image string) (name, version string) {
	if name, digest, ok := strings.Cut(image, "@"); ok {
		return name, digest
	}
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[:i], image[i+1:]
	}
	return image, ""
}
