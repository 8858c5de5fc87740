package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// PodTemplates describes the kind PodTemplate.
//
//upstream:pkg/registry/core/podtemplate.podTemplateStrategy
//upstream:pkg/apis/core/validation.ValidatePodTemplate
//upstream:pkg/printers/internalversion.printPodTemplate
func PodTemplates() kinds.Kind {
	return kinds.Of[*corev1.PodTemplate]{
		Type: &corev1.PodTemplate{}, List: &corev1.PodTemplateList{},
		Plural: "podtemplates", Name: fieldrules.NameIsSubdomain, Generation: true,
		ReturnsDeleted: true,
		Default:        func(t *corev1.PodTemplate) { podspec.SetDefaults(&t.Template.Spec) },
		ValidateCreate: func(t *corev1.PodTemplate) (errs field.ErrorList) {
			podspec.ValidateTemplate(check.Object(&errs).Child("template"), &t.Template, nil)
			return errs
		},
		ValidateUpdate: func(t, old *corev1.PodTemplate) (errs field.ErrorList) {
			podspec.ValidateTemplate(check.Object(&errs).Child("template"), &t.Template, &old.Template)
			return errs
		},
		Warnings: func(t, old *corev1.PodTemplate) []string {
			if old != nil && t.Generation == old.Generation {
				return nil
			}
			return podspec.Warnings(&t.Template.ObjectMeta, &t.Template.Spec, field.NewPath("template"))
		},
		Bare: true,
		Columns: []metav1.TableColumnDefinition{
			columns.NameColumn,
			columns.Column("Containers", "string", "The names of the containers in the template."),
			columns.Column("Images", "string", "The images of the containers in the template."),
			columns.Column("Pod Labels", "string", "The labels of the pods that the template makes."),
		},
		Row: func(t *corev1.PodTemplate) []any {
			names, images := columns.ContainerCells(t.Template.Spec.Containers)
			return []any{t.Name, names, images, columns.LabelCell(t.Template.Labels)}
		},
	}
}
