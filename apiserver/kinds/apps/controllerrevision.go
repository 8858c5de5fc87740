package apps

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// ControllerRevisions describes the kind ControllerRevision.
//
//upstream:pkg/registry/apps/controllerrevision.strategy
//upstream:pkg/apis/apps/validation.validateControllerRevision
//upstream:pkg/apis/apps/validation.ValidateControllerRevisionUpdate
//upstream:pkg/printers/internalversion.printControllerRevision
func ControllerRevisions() kinds.Kind {
	return kinds.Of[*appsv1.ControllerRevision]{
		Type: &appsv1.ControllerRevision{}, List: &appsv1.ControllerRevisionList{},
		Plural: "controllerrevisions", Name: fieldrules.NameIsSubdomain,
		Validate: func(r *appsv1.ControllerRevision) field.ErrorList {
			return fieldrules.NonNegative(r.Revision, &fieldrules.Root, "revision")
		},
		ValidateCreate: validateRevisionData,
		ValidateUpdate: func(r, old *appsv1.ControllerRevision) field.ErrorList {
			if equality.Semantic(dataOf(r.Data), dataOf(old.Data)) {
				return nil
			}
			return fieldrules.Immutable(r.Data, old.Data, &fieldrules.Root, "data")
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Controller", "string", "The controller that owns the revision."),
			columns.Column("Revision", "string", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
		},
		Row: func(r *appsv1.ControllerRevision) []any { return []any{ownerCell(r), r.Revision} },
	}
}

// validateRevisionData checks that the data of a new revision is a JSON object.
//
//upstream:pkg/apis/apps/validation.ValidateControllerRevisionCreate
func validateRevisionData(r *appsv1.ControllerRevision) field.ErrorList {
	at := fieldrules.Root.ChildField("data")
	if r.Data.Raw == nil {
		if r.Data.Object == nil {
			return field.ErrorList{field.Required(at, "data is mandatory")}
		}
		return nil
	}
	var data any
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "error parsing data: "+err.Error())}
	}
	switch data.(type) {
	case nil:
		return field.ErrorList{field.Required(at, "data is mandatory")}
	case map[string]any:
		return nil
	}
	return field.ErrorList{field.Required(at, "data must be a valid JSON object")}
}

func dataOf(e runtime.RawExtension) any {
	if e.Raw != nil {
		return string(e.Raw)
	}
	return e.Object
}
