package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPullPolicyOf(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]corev1.PullPolicy{
		"nginx":                      corev1.PullAlways,
		"nginx:latest":               corev1.PullAlways,
		"nginx:latest" + digest:      corev1.PullAlways,
		"localhost:5000/a/b":         corev1.PullAlways,
		"[::1]:5000/a":               corev1.PullAlways,
		"example.com/a__b":           corev1.PullAlways,
		"nginx:1":                    corev1.PullIfNotPresent,
		"nginx" + digest:             corev1.PullIfNotPresent,
		"":                           corev1.PullIfNotPresent,
		"Nginx":                      corev1.PullIfNotPresent,
		"a___b":                      corev1.PullIfNotPresent,
		"nginx:":                     corev1.PullIfNotPresent,
		"nginx:latest:1":             corev1.PullIfNotPresent,
		"nginx:1" + digest:           corev1.PullIfNotPresent,
		"nginx@sha256:0":             corev1.PullIfNotPresent,
		strings.Repeat("a", 64):      corev1.PullIfNotPresent,
		strings.Repeat("z", 64):      corev1.PullAlways,
		strings.Repeat("z", 256):     corev1.PullIfNotPresent,
		"nginx:latest@sha256:0":      corev1.PullIfNotPresent,
		"example.com:port/a":         corev1.PullIfNotPresent,
		"example.com/a:latest":       corev1.PullAlways,
		"example.com/a:2":            corev1.PullIfNotPresent,
		"index.docker.io/nginx":      corev1.PullAlways,
		"ftp://example.com/a":        corev1.PullIfNotPresent,
		"example.com/a" + digest[1:]: corev1.PullIfNotPresent,
	} {
		if got := pullPolicyOf(image); got != want {
			t.Errorf("%q: got %s, want %s", image, got, want)
		}
	}
}
