package aggregator_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

// metricsServer answers as an extension API server with one node, "elsewhere".
func metricsServer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/apis/metrics.k8s.io/v1beta1":
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.k8s.io/v1beta1","resources":[
			{"name":"nodes","singularName":"","namespaced":false,"kind":"NodeMetrics","verbs":["get","list"]}]}`)
	case "/apis/metrics.k8s.io/v1beta1/nodes":
		fmt.Fprint(w, `{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[{"metadata":{"name":"elsewhere"},"usage":{"cpu":"1"}}]}`)
	default:
		http.NotFound(w, r)
	}
}

// TestMetricsServer: an APIService with a Service takes the place of the metrics that the control plane serves, whether it is created or
// the existing one is changed, and they come back with its deletion.
func TestMetricsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client, ctx, labels := controlplanetest.ClientFor(t, plane.Config()), t.Context(), map[string]string{"app": "metrics-server"}
		send := controlplanetest.Sender(t, plane.Config())
		want := func(nodes, resources string) {
			t.Helper()
			time.Sleep(time.Minute) // virtual: until the next check
			synctest.Wait()
			if code, body := send("GET", "/apis/metrics.k8s.io/v1beta1/nodes", "", ""); code != 200 || !strings.Contains(string(body), `"name":"`+nodes+`"`) {
				t.Errorf("the metrics of nodes: %d %s, want %s", code, body, nodes)
			}
			list, err := client.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
			var names []string
			if err == nil {
				for _, r := range list.APIResources {
					names = append(names, r.Name)
				}
			}
			if got := strings.Join(names, " "); got != resources {
				t.Errorf("discovered %q, %v, want %q", got, err, resources)
			}
		}
		controlplanetest.Must[*corev1.Service](t)(client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "metrics-server"},
			Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(10250)}}}}, metav1.CreateOptions{}))
		pod := controlplanetest.ExamplePod(0)
		pod.Labels, pod.Spec.Containers[0].Ports = labels, nil
		controlplanetest.Must[*corev1.Pod](t)(client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
		synctest.Wait()
		server := httptest.NewUnstartedServer(http.HandlerFunc(metricsServer))
		server.Listener.Close()
		server.Listener = controlplanetest.Must[net.Listener](t)(plane.Pods().Listen(runtime.Selector{Labels: "app=metrics-server"}, 10250))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{controlplanetest.CertificateFor(t, "metrics-server.default.svc")}}
		server.StartTLS()
		defer server.Close()

		want("flyball", "nodes pods")
		const name = "v1beta1.metrics.k8s.io"
		services := controlplanetest.Must[*aggregatorclient.Clientset](t)(aggregatorclient.NewForConfig(plane.Config())).ApiregistrationV1().APIServices()
		spec := apiregistrationv1.APIServiceSpec{Group: "metrics.k8s.io", Version: "v1beta1", GroupPriorityMinimum: 100, VersionPriority: 100,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "metrics-server"}, InsecureSkipTLSVerify: true}
		is := controlplanetest.Must[*apiregistrationv1.APIService](t)(services.Get(ctx, name, metav1.GetOptions{}))
		is.Spec = spec // as kubectl apply does
		controlplanetest.Must[*apiregistrationv1.APIService](t)(services.Update(ctx, is, metav1.UpdateOptions{}))
		for range 2 {
			want("elsewhere", "nodes")
			if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			want("flyball", "nodes pods")
			controlplanetest.Must[*apiregistrationv1.APIService](t)(services.Create(ctx, &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}))
		}
	})
}
