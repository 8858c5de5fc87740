package admission

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// podRules sets the hostname of pods to host.
type podRules struct{ host string }

func (r podRules) Default(_ context.Context, pod *corev1.Pod) error {
	pod.Spec.Hostname = r.host
	return nil
}

func (podRules) ValidateCreate(context.Context, *corev1.Pod) (Warnings, error) { return nil, nil }

func (podRules) ValidateUpdate(context.Context, *corev1.Pod, *corev1.Pod) (Warnings, error) {
	return nil, nil
}

func (podRules) ValidateDelete(context.Context, *corev1.Pod) (Warnings, error) { return nil, nil }

// podReview returns a review of the creation of a pod as API servers send it.
func podReview(b *testing.B) string {
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-0", Labels: map[string]string{"app": "web", "tier": "front"},
			Annotations: map[string]string{"example.org/checksum": strings.Repeat("0123456789abcdef", 4)},
		},
		Spec: corev1.PodSpec{Hostname: "web-0", ServiceAccountName: "default"},
	}
	for _, name := range []string{"app", "proxy"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: "registry.example.org/" + name + ":v1.2.3",
			Ports: []corev1.ContainerPort{{ContainerPort: 8080, Name: "http", Protocol: "TCP"}},
			Env:   []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}},
		})
	}
	encoded, err := json.Marshal(pod)
	if err != nil {
		b.Fatal(err)
	}
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Name: "web-0", Namespace: "default", Operation: admissionv1.Create,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			UserInfo: authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:authenticated", "admins"}},
			Object:   runtime.RawExtension{Raw: encoded},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return string(review)
}

// discard is a response that is not looked at.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkAdmission measures reviews of a pod from the HTTP handler on, on all processors.
func BenchmarkAdmission(b *testing.B) {
	review := podReview(b)
	for name, hook := range map[string]*Webhook{
		"validator":           WithValidator(clientgoscheme.Scheme, podRules{}),
		"defaulter-no-change": WithDefaulter(clientgoscheme.Scheme, podRules{"web-0"}),
		"defaulter-change":    WithDefaulter(clientgoscheme.Scheme, podRules{"other"}),
	} {
		b.Run(name, func(b *testing.B) {
			handler, err := StandaloneWebhook(hook, StandaloneOptions{MetricsPath: "/bench"})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				w := &discard{http.Header{}}
				for pb.Next() {
					r, err := http.NewRequest(http.MethodPost, "/bench", strings.NewReader(review))
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Content-Type", "application/json")
					handler.ServeHTTP(w, r)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "admissions/s")
		})
	}
}
