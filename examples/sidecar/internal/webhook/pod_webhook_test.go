package webhook

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/webhook/admission"
)

func TestDefault(t *testing.T) {
	marked := map[string]string{InjectLabel: "true"}
	for _, tt := range []struct {
		name        string
		operation   admissionv1.Operation
		labels      map[string]string
		annotations map[string]string
		init        []string // names of init containers
		want        []string
		wantPort    int32
		wantErr     string
	}{
		{name: "no label", operation: admissionv1.Create},
		{name: "another value", operation: admissionv1.Create, labels: map[string]string{InjectLabel: "yes"}},
		{name: "marked", operation: admissionv1.Create, labels: marked, want: []string{ContainerName}, wantPort: 15001},
		{name: "before the others", operation: admissionv1.Create, labels: marked, init: []string{"a", "b"},
			want: []string{ContainerName, "a", "b"}, wantPort: 15001},
		{name: "again", operation: admissionv1.Create, labels: marked, init: []string{"a", ContainerName}, want: []string{"a", ContainerName}},
		{name: "an update", operation: admissionv1.Update, labels: marked},
		{name: "a port", operation: admissionv1.Create, labels: marked, annotations: map[string]string{PortAnnotation: "8080"},
			want: []string{ContainerName}, wantPort: 8080},
		{name: "no number", operation: admissionv1.Create, labels: marked, annotations: map[string]string{PortAnnotation: "http"},
			wantErr: `metadata.annotations[sidecar.example.com/port]: Invalid value: "http": must be a number`},
		{name: "out of range", operation: admissionv1.Create, labels: marked, annotations: map[string]string{PortAnnotation: "65536"},
			wantErr: "must be between 1 and 65535, inclusive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: tt.labels, Annotations: tt.annotations}}
			for _, name := range tt.init {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name})
			}
			before := pod.DeepCopy()
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: tt.operation}}
			err := (&Injector{}).Default(admission.NewContextWithRequest(t.Context(), request), pod)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) || !equality.Semantic.DeepEqual(before, pod) {
					t.Errorf("got %v, %+v", err, pod)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, c := range pod.Spec.InitContainers {
				names = append(names, c.Name)
			}
			if strings.Join(names, " ") != strings.Join(tt.want, " ") {
				t.Errorf("the init containers are %v, want %v", names, tt.want)
			}
			if tt.wantPort != 0 && pod.Spec.InitContainers[0].Ports[0].ContainerPort != tt.wantPort {
				t.Errorf("the sidecar is %+v", pod.Spec.InitContainers[0])
			}
		})
	}
}
