package fieldrules

import (
	"reflect"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations checks the keys and the size of annotations.
func Annotations(m map[string]string, fldPath *Path) field.ErrorList {
	if len(m) == 0 {
		return nil
	}
	return apivalidation.ValidateAnnotations(m, fldPath.ChildField("annotations"))
}

// TemplateMetadata checks the metadata of a template of objects, which has labels and annotations
// only.
func TemplateMetadata(m metav1.ObjectMeta, fldPath *Path) field.ErrorList {
	errs := append(Annotations(m.Annotations, fldPath), LabelMap(m.Labels, fldPath, "labels")...)
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; name {
		case "Labels", "Annotations":
		default:
			if !v.Field(i).IsZero() {
				errs = append(errs, field.Forbidden(fldPath.ChildField(strings.ToLower(name[:1])+name[1:]), "cannot be set"))
			}
		}
	}
	return errs
}

const UnknownFinalizer = "name is neither a standard finalizer name nor is it fully qualified"

var StandardFinalizers = []string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

// Finalizers checks that every finalizer has a domain, except Kubernetes' own finalizers.
func Finalizers(names []string, fldPath *Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		if !strings.Contains(name, "/") && !slices.Contains(StandardFinalizers, name) {
			at := fldPath.Index(i)
			errs = append(errs, field.Invalid(at.Field(), name, UnknownFinalizer))
		}
	}
	return errs
}
