package kinds

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func podTemplates() Kind {
	return Of[*corev1.PodTemplate]{
		Type: &corev1.PodTemplate{}, List: &corev1.PodTemplateList{},
		Plural: "podtemplates", Name: subdomain, Generation: true, CreateOnUpdate: true,
		ReturnsDeleted: true,
		Default:        func(t *corev1.PodTemplate) { defaultPodSpec(&t.Template.Spec) },
		Validate: func(t *corev1.PodTemplate) field.ErrorList {
			w := where{field: "template"}
			return podTemplate(&t.Template, &w)
		},
		Bare: true,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			column("Containers", "string", "The names of the containers in the template."),
			column("Images", "string", "The images of the containers in the template."),
			column("Pod Labels", "string", "The labels of the pods that the template makes."),
		},
		Row: func(t *corev1.PodTemplate) []any {
			names, images := containerCells(t.Template.Spec.Containers)
			return []any{t.Name, names, images, labelCell(t.Template.Labels)}
		},
	}
}
