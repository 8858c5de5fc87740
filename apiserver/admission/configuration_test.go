package admission_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
)

// TestAdmissionConfiguration: the configurations of plugins apply to requests.
func TestAdmissionConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline}
    exemptions: {namespaces: [kube-system]}
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Namespace, qps: 1, burst: 1}]
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default: [{key: gpu, operator: Exists}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	o := controlplane.Options{WithoutControllers: true}
	o.Admission.ConfigFile = file
	o.Admission.Enable = []string{"EventRateLimit", "PodTolerationRestriction"}
	client, ctx := controlplanetest.ClientFor(t, controlplanetest.Start(t, o).Config()), t.Context()
	pod := func(namespace string) (*corev1.Pod, error) {
		return client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
			Spec:       corev1.PodSpec{HostNetwork: namespace != "kube-public", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}, metav1.CreateOptions{})
	}
	_, err := pod("default")
	controlplanetest.Forbidden(t, err, `violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`)
	controlplanetest.Must[*corev1.Pod](t)(pod("kube-system"))
	created := controlplanetest.Must[*corev1.Pod](t)(pod("kube-public"))
	if !slices.ContainsFunc(created.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "gpu" }) {
		t.Errorf("the pod tolerates %v", created.Spec.Tolerations)
	}
	event := func() error {
		_, err := client.CoreV1().Events("default").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: "e-"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: "default"}}, metav1.CreateOptions{})
		return err
	}
	if err := event(); err != nil {
		t.Fatal(err)
	}
	if err := event(); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the second event: %v", err)
	}
}
