package aggregator_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"flyball.dev/controlplane/controlplanetest"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"flyball.dev/controlplane"
)

// TestWebhookOfSimulatedPods: neither a webhook nor an extension API server is called at the invented
// address of a pod, and the error says how to serve the Service instead.
func TestWebhookOfSimulatedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{DialWebhook: func(_ context.Context, _, address string) (net.Conn, error) {
			t.Errorf("%s is dialed", address)
			return nil, errors.New("refused")
		}})
		client, ctx, labels := controlplanetest.ClientFor(t, plane.Config()), t.Context(), map[string]string{"app": "hook"}
		controlplanetest.Must[*corev1.Service](t)(client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"},
			Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 443}}}}, metav1.CreateOptions{}))
		for i, hostNetwork := range []bool{false, true} {
			pod := controlplanetest.ExamplePod(i)
			pod.Labels, pod.Spec.HostNetwork, pod.Spec.Containers[0].Ports = labels, hostNetwork, nil
			controlplanetest.Must[*corev1.Pod](t)(client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
		}
		synctest.Wait()
		path := "/hook"
		controlplanetest.CreateMutating(t, client, "m", controlplanetest.MutatingWebhook("m", admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "hook", Path: &path}}, "configmaps"))
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("a"), metav1.CreateOptions{})
		const want = `the pods of service "hook" listen on no port: this control plane runs no containers; ` +
			`a process on this machine can serve it, by the annotation flyball.dev/loopback-port of the service or by its type ExternalName, ` +
			`as docs/webhooks.md#services explains`
		if !apierrors.IsInternalError(err) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("a webhook: %v", err)
		}
		registrations := controlplanetest.Must[*aggregatorclient.Clientset](t)(aggregatorclient.NewForConfig(plane.Config())).ApiregistrationV1().APIServices()
		controlplanetest.Must[*apiregistrationv1.APIService](t)(registrations.Create(ctx, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1.sea.example.com"},
			Spec: apiregistrationv1.APIServiceSpec{Group: "sea.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10,
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "hook"}, InsecureSkipTLSVerify: true},
		}, metav1.CreateOptions{}))
		synctest.Wait()
		service := controlplanetest.Must[*apiregistrationv1.APIService](t)(registrations.Get(ctx, "v1.sea.example.com", metav1.GetOptions{}))
		if c := service.Status.Conditions; len(c) != 1 || c[0].Reason != "FailedDiscoveryCheck" || !strings.HasSuffix(c[0].Message, want) {
			t.Errorf("an extension API server: %+v", c)
		}
	})
}
