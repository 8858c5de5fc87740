package aggregator_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
)

// TestServicesOfSimulatedPods: a webhook and an extension API server are called by the listener of their pods, and never at
// the invented address of a pod. Without a listener, the error says how to serve the Service.
func TestServicesOfSimulatedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{DialWebhook: func(_ context.Context, _, address string) (net.Conn, error) {
			t.Errorf("%s is dialed", address)
			return nil, errors.New("refused")
		}})
		client, ctx, labels := controlplanetest.ClientFor(t, plane.Config()), t.Context(), map[string]string{"app": "hook"}
		controlplanetest.Must[*corev1.Service](t)(client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"},
			Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8443)}}}}, metav1.CreateOptions{}))
		for i, hostNetwork := range []bool{false, true} {
			pod := controlplanetest.ExamplePod(i)
			pod.Name += ".of.hook" // a name may have dots
			pod.Labels, pod.Spec.HostNetwork, pod.Spec.Containers[0].Ports = labels, hostNetwork, nil
			controlplanetest.Must[*corev1.Pod](t)(client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
		}
		synctest.Wait()
		hooks := controlplanetest.ServeWebhooks(t)
		hook := hooks.Handle("hook", controlplanetest.Patch(`[{"op": "add", "path": "/data/called", "value": "yes"}]`))
		hook.URL, hook.Service = nil, &admissionv1.ServiceReference{Namespace: "default", Name: "hook", Path: new("/hook")}
		controlplanetest.CreateMutating(t, client, "m", controlplanetest.MutatingWebhook("m", hook, "configmaps"))
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("a"), metav1.CreateOptions{})
		const why = `.of.hook.default.pod:8443: connection refused: this control plane runs no containers; ` +
			`docs/webhooks.md#services tells how a process or a test serves a Service`
		if !apierrors.IsInternalError(err) || !strings.HasSuffix(err.Error(), why) {
			t.Errorf("a webhook without a listener: %v", err)
		}

		// A user can create endpoints with these addresses too.
		controlplanetest.Must[*corev1.Service](t)(client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "manual"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}, metav1.CreateOptions{}))
		controlplanetest.CreateMutating(t, client, "manual", controlplanetest.MutatingWebhook("manual", admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "manual", Path: new("/hook")}}, "secrets"))
		node := controlplanetest.Must[*corev1.Node](t)(client.CoreV1().Nodes().Get(ctx, "flyball", metav1.GetOptions{}))
		pod := controlplanetest.Must[*corev1.Pod](t)(client.CoreV1().Pods("default").Get(ctx, controlplanetest.ExamplePod(0).Name+".of.hook", metav1.GetOptions{}))
		for what, address := range map[string]string{"a pod": pod.Status.PodIP, "a pod that is gone": "10.200.1.2", "a node": node.Status.Addresses[0].Address} {
			slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "manual", Labels: map[string]string{discoveryv1.LabelServiceName: "manual"}},
				AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(443))}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}}}
			controlplanetest.Must[*discoveryv1.EndpointSlice](t)(client.DiscoveryV1().EndpointSlices("default").Create(ctx, slice, metav1.CreateOptions{}))
			_, err := client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `nothing listens at the addresses of service "manual": this control plane runs no containers`) {
				t.Errorf("an endpoint with the address of %s, %s: %v", what, address, err)
			}
			if err := client.DiscoveryV1().EndpointSlices("default").Delete(ctx, "manual", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		registrations := controlplanetest.Must[*aggregatorclient.Clientset](t)(aggregatorclient.NewForConfig(plane.Config())).ApiregistrationV1().APIServices()
		controlplanetest.Must[*apiregistrationv1.APIService](t)(registrations.Create(ctx, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1.sea.example.com"},
			Spec: apiregistrationv1.APIServiceSpec{Group: "sea.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10,
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "hook"}, InsecureSkipTLSVerify: true},
		}, metav1.CreateOptions{}))
		awaitCondition(t, registrations.Watch, apiregistrationv1.ConditionFalse, "FailedDiscoveryCheck", why)

		// The pods listen.
		listener := controlplanetest.Must[net.Listener](t)(plane.Pods().Listen(runtime.Selector{Labels: "app=hook"}, 8443))
		extension := &extension{}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hook" {
				hooks.ServeHTTP(w, r)
				return
			}
			extension.serve(w, r)
		}))
		server.Listener.Close()
		server.Listener = listener
		server.TLS = &tls.Config{Certificates: []tls.Certificate{controlplanetest.CertificateFor(t, "hook.default.svc")}}
		server.StartTLS()
		defer server.Close()
		hook.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		controlplanetest.CreateMutating(t, client, "n", controlplanetest.MutatingWebhook("n", hook, "configmaps"))
		if err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, "m", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b", "c"} {
			if cm, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap(name), metav1.CreateOptions{}); err != nil || cm.Data["called"] != "yes" {
				t.Errorf("a webhook of pods that listen: %v, %v", cm, err)
			}
		}
		time.Sleep(30 * time.Second) // virtual: until the periodic check
		awaitCondition(t, registrations.Watch, apiregistrationv1.ConditionTrue, "Passed", "")
		if code, body := controlplanetest.Sender(t, plane.Config())("GET", "/apis/sea.example.com/v1/namespaces/default/tides", "", ""); code != 200 || !strings.Contains(string(body), `"name":"high"`) {
			t.Errorf("an extension API server of pods that listen: %d %s", code, body)
		}
	})
}
