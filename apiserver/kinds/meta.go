package kinds

import (
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// annotations checks the keys and the size of annotations.
func annotations(m map[string]string, w *where) field.ErrorList {
	if len(m) == 0 {
		return nil
	}
	return apivalidation.ValidateAnnotations(m, w.of("annotations"))
}

const unknownFinalizer = "name is neither a standard finalizer name nor is it fully qualified"

var standardFinalizers = []string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

// finalizers checks that every finalizer tells by its domain whose it is, but for Kubernetes' own.
func finalizers(names []string, w *where) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		if !strings.Contains(name, "/") && !slices.Contains(standardFinalizers, name) {
			at := w.item(i)
			errs = append(errs, field.Invalid(at.path(), name, unknownFinalizer))
		}
	}
	return errs
}
