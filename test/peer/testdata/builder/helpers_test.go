package builder_test

//lint:file-ignore U1000 controller-runtime's tests call these functions

import (
	"errors"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The paths at which the builder registers webhooks, which the tests call by unexported functions.

func generateMutatePath(kind schema.GroupVersionKind) string { return "/mutate-" + pathOf(kind) }

func generateValidatePath(kind schema.GroupVersionKind) string { return "/validate-" + pathOf(kind) }

func pathOf(kind schema.GroupVersionKind) string {
	group := strings.ReplaceAll(kind.Group, ".", "-")
	return strings.Join([]string{group, kind.Version, strings.ToLower(kind.Kind)}, "-")
}

var validPath = regexp.MustCompile(`^(/|(/[a-zA-Z0-9_-]+)+)$`)

func generateCustomPath(path string) (string, error) {
	if !validPath.MatchString(path) {
		return "", errors.New("invalid path " + path)
	}
	return path, nil
}
