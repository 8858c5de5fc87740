package lab

import (
	"fmt"
	"hash/maphash"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// isHidden reports whether a field has a value of a Secret. A finding is in the log of a build, and its file among the sources, so they say
// only whether such a value is there and has changed.
func isHidden(kind, path string) bool {
	return kind == "Secret" && (strings.HasPrefix(path, "data.") || strings.HasPrefix(path, "stringData.") ||
		path == "metadata.annotations."+corev1.LastAppliedConfigAnnotation)
}

// hidden returns a difference in an object of a kind without the values of a Secret.
func hidden(kind string, d difference) difference {
	switch {
	case !isHidden(kind, d.Path):
	case d.Got != "" && d.Want != "":
		d.Got, d.Want = "another value", "a value"
	case d.Got != "":
		d.Got = "a value"
	default:
		d.Want = "a value"
	}
	return d
}

// hide replaces the values of a Secret by marks that are equal if the values are, in this process.
func hide(kind string, f fields) {
	for path, value := range f {
		if isHidden(kind, path) {
			f[path] = fmt.Sprintf("value %x", maphash.String(hideSeed, value))
		}
	}
}

var hideSeed = maphash.MakeSeed()
