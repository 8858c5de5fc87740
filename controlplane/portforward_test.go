package controlplane_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	clientspdy "k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

// TestForwards forwards ports, and reaches them by the proxies of pods, services and nodes.
func TestForwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		controlplanetest.Must[*corev1.Node](t)(client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: map[string]string{"flyball.dev/kubelet": "running"}},
			Spec: corev1.NodeSpec{Unschedulable: true}}, metav1.CreateOptions{}))
		pod := sleeper("web")
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
		createRunning(t, client, pod)
		l, err := plane.Pods().Listen(runtime.Selector{Labels: "app=web"}, 8080)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), body)
		})}
		go server.Serve(l)
		defer server.Close()
		controlplanetest.Must[*corev1.Service](t)(client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "main", Port: 80, TargetPort: intstr.FromString("http")}}}}, metav1.CreateOptions{}))
		controlplanetest.Must[*corev1.Service](t)(client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "host"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "main", Port: 80}}}}, metav1.CreateOptions{}))
		name, port := "main", int32(80)
		controlplanetest.Must[*discoveryv1.EndpointSlice](t)(client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "host", Labels: map[string]string{discoveryv1.LabelServiceName: "host"}}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}}, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}}}, metav1.CreateOptions{}))
		time.Sleep(time.Second) // virtual
		send := controlplanetest.Sender(t, plane.Config())
		const ns = "/api/v1/namespaces/default"
		for _, tc := range []struct {
			method, path, body string
			code               int
			want               string
		}{
			{"GET", ns + "/pods/web/proxy/a/b?c=d", "", 200, "GET /a/b?c=d "},
			{"POST", ns + "/pods/http:web:8080/proxy/", "text", 200, "POST / text"},
			{"GET", ns + "/pods/web:81/proxy/", "", 503, "error trying to reach service: dial tcp 10.244.0.1:81: connect: connection refused"},
			{"GET", ns + "/pods/web:0/proxy/", "", 503, "error trying to reach service: dial tcp 10.244.0.1:0: connect: connection refused"},
			{"GET", ns + "/pods/web:bad/proxy/", "", 400, `invalid port \"bad\"`},
			{"POST", ns + "/pods/web:http/proxy/", "", 400, `invalid port \"http\"`},
			{"GET", ns + "/pods/web:70000/proxy/", "", 503, "error trying to reach service: dial tcp: address 70000: invalid port"},
			{"GET", ns + "/pods/https:web:-1/proxy/", "", 400, `invalid port \"-1\"`},
			{"GET", ns + "/pods/ftp:web:21/proxy/", "", 400, `invalid pod request \"ftp:web:21\"`},
			{"GET", ns + "/pods/web:8080:a:b/proxy/", "", 400, `invalid pod request \"web:8080:a:b\"`},
			{"GET", ns + "/services/web:main/proxy/x", "", 200, "GET /x "},
			{"GET", ns + "/services/web:80/proxy/", "", 200, "GET / "},
			{"GET", ns + "/services/http:web:main/proxy/", "", 200, "GET / "},
			{"GET", ns + "/services/web:http/proxy/", "", 503, `no endpoints available for service \"web\"`},
			{"GET", ns + "/services/web/proxy/", "", 503, `no endpoints available for service \"web\"`},
			{"GET", ns + "/services/ftp:web:21/proxy/", "", 400, `invalid service request \"ftp:web:21\"`},
			{"GET", ns + "/services/none:80/proxy/", "", 404, `services \"none\" not found`},
			{"GET", ns + "/services/web:81/proxy/", "", 503, `no service port 81 found for service \"web\"`},
			{"GET", ns + "/services/host:80/proxy/", "", 503, `no endpoints available for service \"host\"`},
			{"GET", "/api/v1/nodes/flyball/proxy/healthz", "", 200, "ok"},
			{"GET", "/api/v1/nodes/flyball/proxy/pods", "", 200, `"name":"web"`},
			{"GET", "/api/v1/nodes/flyball/proxy/containerLogs/default/web/c", "", 200, "started\n"},
			{"GET", "/api/v1/nodes/flyball/proxy/containerLogs/default/web/none", "", 404, `container "none" not found in pod "web"`},
			{"GET", "/api/v1/nodes/flyball/proxy/containerLogs/default/none/c", "", 404, `pod "none" does not exist`},
			{"GET", "/api/v1/nodes/other/proxy/containerLogs/default/web/c", "", 404, `pod "web" does not exist`},
			{"POST", "/api/v1/nodes/other/proxy/run/default/web/c?cmd=echo+hi", "", 404, "pod does not exist"},
			{"POST", "/api/v1/nodes/other/proxy/exec/default/web/c?command=true&output=1", "", 404, "pod does not exist"},
			{"GET", "/api/v1/nodes/other/proxy/pods", "", 200, `"items":[]`},
			{"POST", "/api/v1/nodes/flyball/proxy/run/default/web/c?cmd=echo+hi", "", 200, "hi\n"},
			{"POST", "/api/v1/nodes/flyball/proxy/run/default/web/c?cmd=false", "", 500, "command 'false' exited with 1: "},
			{"GET", "/api/v1/nodes/flyball:10250/proxy/healthz", "", 200, "ok"},
			{"GET", "/api/v1/nodes/flyball:22/proxy/", "", 503, "error trying to reach service: dial tcp 10.0.0.1:22: connect: connection refused"},
			{"GET", "/api/v1/nodes/http:flyball:bad/proxy/", "", 400, `invalid port \"bad\"`},
			{"GET", "/api/v1/nodes/ftp:flyball:21/proxy/", "", 400, `invalid node request \"ftp:flyball:21\"`},
			{"GET", "/api/v1/nodes/flyball/proxy/etc/passwd", "", 404, "not found"},
		} {
			code, body := send(tc.method, tc.path, "", tc.body)
			if code != tc.code || !strings.Contains(string(body), tc.want) {
				t.Errorf("%s %s: got %d %s; want %d %s", tc.method, tc.path, code, body, tc.code, tc.want)
			}
		}
	})
}

// TestPortForward forwards connections by client-go's forwarder, over both protocols.
func TestPortForward(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	cfg := controlplanetest.FromKubeconfig(t, plane)
	client := controlplanetest.ClientFor(t, cfg)
	createRunning(t, client, sleeper("web"))
	l, err := plane.Pods().Listen(runtime.Selector{Pod: "web"}, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	at := connectionURL(client, "web", "portforward")
	for _, webSocket := range []bool{false, true} {
		dialer, err := dialerFor(cfg, at, webSocket)
		if err != nil {
			t.Fatal(err)
		}
		stop, ready := make(chan struct{}), make(chan struct{})
		forwarder, err := portforward.NewForStreaming(dialer, []string{"0:7", "0:8"}, stop, ready, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- forwarder.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-ended:
			t.Fatalf("WebSocket %v: %v", webSocket, err)
		}
		ports, err := forwarder.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				text := strings.Repeat(fmt.Sprint(i), 100_000)
				go io.WriteString(conn, text)
				got := make([]byte, len(text))
				if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
					t.Errorf("WebSocket %v: %v", webSocket, err)
				}
			})
		}
		all.Wait()
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[1].Local))
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(conn); len(text) > 0 {
			t.Errorf("WebSocket %v: a port without a listener sends %q", webSocket, text)
		}
		conn.Close()
		close(stop)
		<-ended
	}
}

// dialerFor returns client-go's dialer for forwarded ports.
func dialerFor(cfg *rest.Config, at *url.URL, webSocket bool) (httpstream.Dialer, error) {
	if webSocket {
		return portforward.NewSPDYOverWebsocketDialerForStreaming(at, cfg)
	}
	transport, upgrader, err := clientspdy.RoundTripperFor(cfg)
	if err != nil {
		return nil, err
	}
	return clientspdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at), nil
}

// echo is a listener that sends back what it receives.
func echo(t *testing.T, plane *controlplane.ControlPlane, port int32) {
	t.Helper()
	l, err := plane.Pods().Listen(runtime.Selector{}, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
}

// TestForwardWithoutSocket: client-go's dialer for WebSockets reaches a port of a pod without a socket.
func TestForwardWithoutSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		echo(t, plane, 7)
		dialer, err := dialerFor(plane.Config(), connectionURL(client, "web", "portforward"), true)
		if err != nil {
			t.Fatal(err)
		}
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		if err != nil {
			t.Fatal(err)
		}
		createStream(t, conn, "streamType", "error", "port", "7", "requestID", "1")
		data := createStream(t, conn, "streamType", "data", "port", "7", "requestID", "1")
		io.WriteString(data, "hello")
		got := make([]byte, 5)
		if _, err := io.ReadFull(data, got); err != nil || string(got) != "hello" {
			t.Errorf("the port answers %q, %v", got, err)
		}
		data.Close()
		conn.Close()
		time.Sleep(time.Minute) // virtual: spdystream offers the error of the end for a second
	})
}

// TestOddForwards forwards ports with streams of old clients, which have no ID of a request, and with streams that are wrong.
func TestOddForwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		echo(t, plane, 7)
		conn := connectSPDY(t, plane, connectionURL(client, "web", "portforward"), "portforward.k8s.io")
		defer conn.Close()
		failed := createStream(t, conn, "streamType", "error", "port", "7")
		data := createStream(t, conn, "streamType", "data", "port", "7")
		io.WriteString(data, "hello")
		got := make([]byte, 5)
		if _, err := io.ReadFull(data, got); err != nil || string(got) != "hello" {
			t.Errorf("a client without IDs: %q, %v", got, err)
		}
		data.Close()
		if rest, err := io.ReadAll(data); len(rest) > 0 || err != nil {
			t.Errorf("the end of a connection: %q, %v", rest, err)
		}
		if text, err := io.ReadAll(failed); len(text) > 0 || err != nil {
			t.Errorf("the error of a connection: %q, %v", text, err)
		}
		for _, tc := range []struct{ name, kind, port string }{
			{"no port", "data", ""}, {"port 0", "data", "0"}, {"a large port", "data", "70000"}, {"text", "data", "http"}, {"no type", "", "7"}, {"another type", "stdin", "7"},
		} {
			if !refuses(conn, "streamType", tc.kind, "port", tc.port, "requestID", "odd") {
				t.Errorf("a stream with %s is accepted", tc.name)
			}
		}
		// The second stream of a type is reset, and the first ones work.
		failed = createStream(t, conn, "streamType", "error", "port", "8", "requestID", "a")
		if !refuses(conn, "streamType", "error", "port", "8", "requestID", "a") {
			t.Error("a second stream for errors is accepted")
		}
		createStream(t, conn, "streamType", "data", "port", "8", "requestID", "a")
		if text, _ := io.ReadAll(failed); !strings.Contains(string(text), "connection refused") {
			t.Errorf("the error of a port without a listener: %q", text)
		}
		// A stream that stays alone ends.
		start := time.Now()
		failed = createStream(t, conn, "streamType", "error", "port", "7", "requestID", "b")
		if text, _ := io.ReadAll(failed); string(text) != "timed out waiting for client to create streams" || time.Since(start) > 2*time.Minute {
			t.Errorf("a stream without a second one: %q after %v", text, time.Since(start))
		}
		for i := range 1000 {
			createStream(t, conn, "streamType", "error", "port", "7", "requestID", fmt.Sprint(i))
		}
		if !refuses(conn, "streamType", "error", "port", "7", "requestID", "1000") {
			t.Error("a connection beyond the bound is accepted")
		}
	})
}

// TestHalfClosedForward: a client that has sent everything gets the answer.
func TestHalfClosedForward(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	cfg := controlplanetest.FromKubeconfig(t, plane)
	client := controlplanetest.ClientFor(t, cfg)
	createRunning(t, client, sleeper("web"))
	l := controlplanetest.Must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				n, _ := io.Copy(io.Discard, c) // to the end
				fmt.Fprint(c, n)
			}()
		}
	}()
	controlplanetest.Must[func()](t)(plane.Pods().Forward(runtime.Selector{Pod: "web"}, 80, l.Addr().String()))
	for _, webSocket := range []bool{false, true} {
		address, stop := forwarded(t, cfg, client, webSocket)
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.WriteString(conn, strings.Repeat("x", 1<<20))
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		if text, err := io.ReadAll(conn); string(text) != fmt.Sprint(1<<20) || err != nil {
			t.Errorf("WebSocket %v: %q, %v", webSocket, text, err)
		}
		conn.Close()
		stop()
	}
}

// forwarded forwards port 80 of the pod web, and returns the address for it.
func forwarded(t *testing.T, cfg *rest.Config, client kubernetes.Interface, webSocket bool) (address string, stop func()) {
	t.Helper()
	dialer, err := dialerFor(cfg, connectionURL(client, "web", "portforward"), webSocket)
	if err != nil {
		t.Fatal(err)
	}
	end, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewForStreaming(dialer, []string{"0:80"}, end, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), func() { close(end); <-ended }
}

// TestPodGoes: a stream ends for its client when the pod is deleted, or the kubelet of its node stops.
func TestPodGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		for name, executor := range inProcessExecutors(plane) {
			createRunning(t, client, sleeper("web"))
			done := make(chan error)
			go func() {
				_, _, err := run(t.Context(), client, executor, "web", "", false, "sh", "-c", "trap 'echo bye' TERM; sleep 1d")
				done <- err
			}()
			time.Sleep(time.Second) // virtual
			grace := int64(5)
			if err := client.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
				t.Fatal(err)
			}
			var exit utilexec.CodeExitError
			if err := <-done; !errors.As(err, &exit) || exit.Code != 137 && exit.Code != 143 {
				t.Errorf("%s: the command in a pod that is deleted ends with %v", name, err)
			}
			time.Sleep(time.Minute) // virtual: the pod is gone, and client-go's heartbeats
		}
	})
}
