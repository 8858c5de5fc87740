package controlplanetest

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ExamplePod returns a small pod with the fields that most pods have.
func ExamplePod(n int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", n), Labels: map[string]string{"app": "web", "tier": "front"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "nginx:1.29",
			Env:   []corev1.EnvVar{{Name: "MODE", Value: "production"}},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		}}},
	}
}

// Decode decodes an object in YAML.
func Decode(tb testing.TB, text string) *unstructured.Unstructured {
	tb.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		tb.Fatal(err)
	}
	return u
}

// WidgetDefinition returns a definition of the custom kind Widget, in YAML. The properties are in YAML's flow style.
func WidgetDefinition(properties string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: ` + properties + `}}}]
`
}

// Widgets is a definition of the custom kind Widget with a status and required fields, in YAML.
const Widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [image]
            properties:
              image: {type: string, minLength: 1}
              replicas: {type: integer, minimum: 0, default: 1}
              ports:
                type: array
                items:
                  type: object
                  required: [name, port]
                  properties:
                    name: {type: string}
                    port: {type: integer, minimum: 1, maximum: 65535}
          status:
            type: object
            properties:
              ready: {type: integer}
`

// ExampleWidget is a Widget without a name, in YAML.
const ExampleWidget = `
apiVersion: example.com/v1
kind: Widget
metadata: {labels: {app: web, tier: front}}
spec:
  image: nginx:1.29
  replicas: 3
  ports: [{name: http, port: 80}, {name: https, port: 443}]
`

// ExampleDeployment returns a small deployment with the name web.
func ExampleDeployment() *appsv1.Deployment {
	p := ExamplePod(0)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: p.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec},
		},
	}
}

// ConfigMap returns a small ConfigMap.
func ConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "v"}}
}
