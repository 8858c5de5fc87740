package kinds

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// annotations checks the keys and the size of annotations.
func annotations(m map[string]string, w *where) field.ErrorList {
	if len(m) == 0 {
		return nil
	}
	return apivalidation.ValidateAnnotations(m, w.of("annotations"))
}
