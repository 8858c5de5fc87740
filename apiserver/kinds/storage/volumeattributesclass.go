package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// VolumeAttributesClasses describes the kind VolumeAttributesClass.
//
//upstream:pkg/registry/storage/volumeattributesclass.volumeAttributesClassStrategy
//upstream:pkg/apis/storage/validation.ValidateVolumeAttributesClass
//upstream:pkg/apis/storage/validation.ValidateVolumeAttributesClassUpdate
//upstream:pkg/printers/internalversion.printVolumeAttributesClass
//upstream:pkg/registry/storage/volumeattributesclass/storage.REST.ShortNames
func VolumeAttributesClasses() kinds.Kind {
	return kinds.Of[*storagev1.VolumeAttributesClass]{
		Type: &storagev1.VolumeAttributesClass{}, List: &storagev1.VolumeAttributesClassList{},
		Plural: "volumeattributesclasses", ReturnsDeleted: true, ShortNames: []string{"vac"}, Cluster: true,
		Name: fieldrules.NameIsSubdomain,
		Validate: func(c *storagev1.VolumeAttributesClass) (errs field.ErrorList) {
			object := check.Object(&errs)
			driver(object.Child("driverName"), c.DriverName)
			parameters(object.Child("parameters"), c.Parameters)
			if len(c.Parameters) == 0 {
				object.Child("parameters").Required("must contain at least one key/value pair")
			}
			return errs
		},
		ValidateUpdate: func(c, old *storagev1.VolumeAttributesClass) (errs field.ErrorList) {
			object := check.Object(&errs)
			check.Forbid(object.Child("driverName"), c.DriverName != old.DriverName, "updates to driverName are forbidden.")
			check.Forbid(object.Child("parameters"), !equality.Semantic(c.Parameters, old.Parameters), "updates to parameters are forbidden.")
			return errs
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("DriverName", "string", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]),
		},
		Row: func(c *storagev1.VolumeAttributesClass) []any { return []any{c.DriverName} },
	}
}
