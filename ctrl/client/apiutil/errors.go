package apiutil

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrResourceDiscoveryFailed has the errors of the groups and versions that a RESTMapper failed to
// discover. It wraps these errors; the error of a group or version that does not exist becomes a
// meta.NoResourceMatchError, so that meta.IsNoMatchError recognizes it.
type ErrResourceDiscoveryFailed map[schema.GroupVersion]error

// Error lists the groups and versions in order, each with its error.
func (e *ErrResourceDiscoveryFailed) Error() string {
	reasons := make([]string, 0, len(*e))
	for gv, err := range *e {
		reasons = append(reasons, fmt.Sprintf("%s: %v", gv, err))
	}
	slices.Sort(reasons)
	return "API discovery failed: " + strings.Join(reasons, ", ")
}

// orNil returns nil if nothing failed.
func (e ErrResourceDiscoveryFailed) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return &e
}

// Unwrap returns the errors.
func (e *ErrResourceDiscoveryFailed) Unwrap() []error {
	errs := make([]error, 0, len(*e))
	byName := func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }
	for _, gv := range slices.SortedFunc(maps.Keys(*e), byName) {
		err := (*e)[gv]
		if apierrors.IsNotFound(err) {
			err = &meta.NoResourceMatchError{PartialResource: gv.WithResource("")}
		}
		errs = append(errs, err)
	}
	return errs
}
