package controlplane_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"flyball.dev/controlplane"
)

// bound returns a pod on a node.
func bound(name string, containers ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: "flyball"}}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: "i"})
	}
	return pod
}

// connectionURL returns the URL of a subresource of a pod.
func connectionURL(client kubernetes.Interface, pod, subresource string) *url.URL {
	r := client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource(subresource)
	switch subresource {
	case "exec":
		r.VersionedParams(&corev1.PodExecOptions{Container: "c", Command: []string{"ls", "-l"}, Stdout: true}, scheme.ParameterCodec)
	case "attach":
		r.VersionedParams(&corev1.PodAttachOptions{Container: "c", Stdout: true}, scheme.ParameterCodec)
	}
	return r.URL()
}

// streams connects by an executor of client-go.
func stream(executor remotecommand.Executor, err error) error {
	if err == nil {
		err = executor.StreamWithContext(context.Background(), remotecommand.StreamOptions{Stdout: io.Discard})
	}
	return err
}

// forward forwards a port by a dialer of client-go.
func forward(cfg *rest.Config, at *url.URL, webSocket bool) error {
	transport, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		return err
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	if webSocket {
		if dialer, err = portforward.NewSPDYOverWebsocketDialer(at, cfg); err != nil {
			return err
		}
	}
	forwarder, err := portforward.New(dialer, []string{"0:80"}, nil, nil, io.Discard, io.Discard)
	if err == nil {
		err = forwarder.ForwardPorts()
	}
	return err
}

// TestUnreachableKubelet connects to a pod on a node of another kubelet by each of client-go's ways, over HTTPS. The error
// names the page that explains it.
func TestUnreachableKubelet(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0", WithoutControllers: true})
	cfg := controlplanetest.FromKubeconfig(t, plane)
	client := controlplanetest.ClientFor(t, controlplanetest.FromKubeconfig(t, plane))
	controlplanetest.Must[*corev1.Pod](t)(client.CoreV1().Pods("default").Create(t.Context(), bound("web", "c", "d"), metav1.CreateOptions{}))
	controlplanetest.Must[*corev1.Node](t)(client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "flyball"}}, metav1.CreateOptions{}))
	const why = `the kubelet of node "flyball" is stopped, or does not belong to this control plane: the API server connects to no other kubelet, as docs/pods.md explains`
	exec, attach := connectionURL(client, "web", "exec"), connectionURL(client, "web", "attach")
	for name, err := range map[string]error{
		"exec, SPDY":              stream(remotecommand.NewSPDYExecutor(cfg, "POST", exec)),
		"exec, WebSocket":         stream(remotecommand.NewWebSocketExecutor(cfg, "GET", exec.String())),
		"attach, SPDY":            stream(remotecommand.NewSPDYExecutor(cfg, "POST", attach)),
		"attach, WebSocket":       stream(remotecommand.NewWebSocketExecutor(cfg, "GET", attach.String())),
		"port forward, SPDY":      forward(cfg, connectionURL(client, "web", "portforward"), false),
		"port forward, WebSocket": forward(cfg, connectionURL(client, "web", "portforward"), true),
		"log":                     client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Container: "d", Follow: true}).Do(t.Context()).Error(),
	} {
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v; want %s", name, err, why)
		}
	}
	_, err := client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Container: "c"}).Stream(t.Context())
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusNotImplemented || status.Status().Reason != "NotImplemented" ||
		status.Status().Details == nil || status.Status().Details.Kind != "nodes" || status.Status().Details.Name != "flyball" {
		t.Errorf("the status of a log is %+v", status)
	}
}

// TestConnections checks that an invalid request is reported as such, before the error that the kubelet is out of reach.
func TestConnections(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	client, send := controlplanetest.ClientFor(t, plane.Config()), controlplanetest.Sender(t, plane.Config())
	for _, pod := range []*corev1.Pod{bound("one", "c"), bound("two", "c", "d"), {ObjectMeta: metav1.ObjectMeta{Name: "waiting"}, Spec: bound("", "c").Spec}} {
		if pod.Name == "waiting" {
			pod.Spec.NodeName = ""
		}
		controlplanetest.Must[*corev1.Pod](t)(client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}))
	}
	controlplanetest.Must[*corev1.Node](t)(client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}))
	controlplanetest.Must[*corev1.Node](t)(client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "flyball"}}, metav1.CreateOptions{}))
	controlplanetest.Must[*corev1.Service](t)(client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{}))
	const (
		pods, services = "/api/v1/namespaces/default/pods/", "/api/v1/namespaces/default/services/"
		noKubelet      = "the API server connects to no other kubelet"
	)
	for _, tc := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", pods + "none/log", 404, `pods \"none\" not found`},
		{"GET", pods + "one/log", 501, noKubelet},
		{"GET", pods + "one/log?container=d", 400, "container d is not valid for pod one"},
		{"GET", pods + "two/log", 400, "a container name must be specified for pod two, choose one of: [c d]"},
		{"GET", pods + "one/log?tailLines=-1&sinceSeconds=0&limitBytes=0", 422, `PodLogOptions \"one\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0]`},
		{"GET", pods + "one/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of `sinceTime` or `sinceSeconds` may be specified"},
		{"GET", pods + "one/log?sinceTime=yesterday", 400, "yesterday"},
		{"GET", pods + "waiting/log", 204, ""},
		{"POST", pods + "one/log", 405, ""},
		{"HEAD", pods + "one/exec", 405, ""},
		{"POST", pods + "none/exec?command=ls", 404, `pods \"none\" not found`},
		{"POST", pods + "one/exec?command=ls", 501, noKubelet},
		{"GET", pods + "one/exec?command=ls&container=x", 400, "container x is not valid for pod one"},
		{"POST", pods + "waiting/exec?command=ls", 400, "pod waiting does not have a host assigned"},
		{"PUT", pods + "one/exec", 405, ""},
		{"GET", pods + "one/exec/more", 404, "the server could not find the requested resource"},
		{"POST", pods + "waiting/attach", 400, "pod waiting does not have a host assigned"},
		{"POST", pods + "none/portforward", 404, `pods \"none\" not found`},
		{"POST", pods + "one/portforward?ports=80,x", 400, "x"},
		{"GET", pods + "one/proxy", 400, "address not allowed"},
		{"DELETE", pods + "https:one:443/proxy/a/b?c=d", 400, "address not allowed"},
		{"HEAD", pods + "one/proxy/", 400, ""},
		{"GET", pods + "none:80/proxy/", 404, `pods \"none\" not found`},
		{"GET", services + "http:s:80/proxy/healthz", 503, `no endpoints available for service \"s\"`},
		{"GET", services + "none/proxy/", 503, `no endpoints available for service \"none\"`},
		{"PATCH", "/api/v1/nodes/n/proxy/configz", 501, noKubelet},
		{"GET", "/api/v1/nodes/none/proxy/", 404, `nodes \"none\" not found`},
		{"GET", "/api/v1/namespaces/default/configmaps/a/proxy/x", 404, "the server could not find the requested resource"},
	} {
		code, body := send(tc.method, tc.path, "", "")
		if code != tc.code || !bytes.Contains(body, []byte(tc.want)) {
			t.Errorf("%s %s: got %d %s; want %d %s", tc.method, tc.path, code, body, tc.code, tc.want)
		}
	}
}

// TestAccessToConnections: a user who may not connect is refused, by both ways. For connections by
// WebSocket, which are requests with the verb get, the verb create is needed as well, as on a cluster.
func TestAccessToConnections(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	admin := controlplanetest.ClientFor(t, plane.Config())
	controlplanetest.Must[*corev1.Pod](t)(admin.CoreV1().Pods("default").Create(t.Context(), bound("web", "c"), metav1.CreateOptions{}))
	controlplanetest.Must[*corev1.Node](t)(admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "flyball"}}, metav1.CreateOptions{}))
	rules := map[string][]rbacv1.PolicyRule{
		"nobody": nil,
		"reader": {controlplanetest.PolicyRule("get", "", "pods,pods/exec,pods/log")},
		"writer": {controlplanetest.PolicyRule("create,get", "", "pods/exec")},
		"poster": {controlplanetest.PolicyRule("create", "", "pods/exec")},
	}
	for user, rules := range rules {
		if rules != nil {
			controlplanetest.GrantCluster(t, admin, user, user, rules...)
		}
	}
	for _, tc := range []struct {
		user, method, path string
		code               int
	}{
		{"nobody", "POST", "web/exec", 403},
		{"nobody", "GET", "none/exec", 403},
		{"nobody", "GET", "web/log", 403},
		{"reader", "GET", "web/log", 501},
		{"reader", "GET", "web/exec", 403},
		{"reader", "GET", "none/exec", 403},
		{"reader", "POST", "web/exec", 403},
		{"reader", "POST", "web/attach", 403},
		{"writer", "GET", "web/exec", 501},
		{"writer", "POST", "web/exec", 501},
		{"writer", "POST", "web/exec?container=x", 400},
		{"writer", "GET", "web/proxy/", 403},
		{"poster", "GET", "web/exec", 403},
		{"poster", "POST", "web/exec", 501},
	} {
		cfg := plane.Config()
		cfg.Impersonate = rest.ImpersonationConfig{UserName: tc.user}
		if code, body := controlplanetest.Sender(t, cfg)(tc.method, "/api/v1/namespaces/default/pods/"+tc.path, "", ""); code != tc.code {
			t.Errorf("%s: %s %s: got %d %s; want %d", tc.user, tc.method, tc.path, code, body, tc.code)
		}
	}
}
