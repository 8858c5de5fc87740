package kinds

import (
	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func controllerRevisions() Kind {
	return Of[*appsv1.ControllerRevision]{
		Type: &appsv1.ControllerRevision{}, List: &appsv1.ControllerRevisionList{},
		Plural: "controllerrevisions", Name: subdomain,
		Validate: func(r *appsv1.ControllerRevision) field.ErrorList {
			errs := nonNegative(r.Revision, &root, "revision")
			if r.Data.Raw == nil && r.Data.Object == nil {
				errs = append(errs, field.Required(root.of("data"), "data is mandatory"))
			}
			return errs
		},
		ValidateUpdate: func(r, old *appsv1.ControllerRevision) field.ErrorList {
			if apiequality.Semantic.DeepEqual(dataOf(r.Data), dataOf(old.Data)) {
				return nil
			}
			return unchanged(r.Data, old.Data, &root, "data")
		},
		Columns: []metav1.TableColumnDefinition{
			column("Controller", "string", "Whose revision it is."),
			column("Revision", "string", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
		},
		Row: func(r *appsv1.ControllerRevision) []any { return []any{ownerCell(r), r.Revision} },
	}
}

func dataOf(e runtime.RawExtension) any {
	if e.Raw != nil {
		return string(e.Raw)
	}
	return e.Object
}
