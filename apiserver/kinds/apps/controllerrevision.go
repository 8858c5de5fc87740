package apps

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// ControllerRevisions describes the kind ControllerRevision.
//
//upstream:pkg/registry/apps/controllerrevision.strategy
//upstream:pkg/printers/internalversion.printControllerRevision
func ControllerRevisions() kinds.Kind {
	return kinds.Of[*appsv1.ControllerRevision]{
		Type: &appsv1.ControllerRevision{}, List: &appsv1.ControllerRevisionList{},
		Plural: "controllerrevisions", Name: fieldrules.NameIsSubdomain,
		ValidateCreate: func(r *appsv1.ControllerRevision) field.ErrorList { return validateControllerRevision(r, nil) },
		ValidateUpdate: validateControllerRevision,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Controller", "string", "The controller that owns the revision."),
			columns.Column("Revision", "string", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
		},
		Row: func(r *appsv1.ControllerRevision) []any { return []any{ownerCell(r), r.Revision} },
	}
}

// validateControllerRevision checks a ControllerRevision. The old one is nil on create.
//
//upstream:pkg/apis/apps/validation.validateControllerRevision
//upstream:pkg/apis/apps/validation.ValidateControllerRevisionUpdate
func validateControllerRevision(r, old *appsv1.ControllerRevision) (errs field.ErrorList) {
	object := check.Object(&errs)
	data := object.Child("data")
	check.NonNegative(object.Child("revision"), &r.Revision)
	switch {
	case old == nil:
		revisionData(data, &r.Data)
	case !equality.Semantic(dataOf(r.Data), dataOf(old.Data)):
		data.Invalid(r.Data, apivalidation.FieldImmutableErrorMsg)
	}
	return errs
}

// revisionData checks that the data of a new revision is a JSON object.
//
//upstream:pkg/apis/apps/validation.ValidateControllerRevisionCreate
func revisionData(at check.Field, e *runtime.RawExtension) {
	var data any
	switch {
	case e.Raw == nil && e.Object == nil:
		at.Required("data is mandatory")
		return
	case e.Raw == nil:
		return
	}
	if err := json.Unmarshal(e.Raw, &data); err != nil {
		at.Invalid("<value omitted>", "error parsing data: "+err.Error())
		return
	}
	switch data.(type) {
	case nil:
		at.Required("data is mandatory")
	case map[string]any:
	default:
		at.Required("data must be a valid JSON object")
	}
}

func dataOf(e runtime.RawExtension) any {
	if e.Raw != nil {
		return string(e.Raw)
	}
	return e.Object
}
