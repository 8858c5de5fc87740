package controlplane_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

// sleeper returns a pod that the shell executes.
func sleeper(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox", Command: []string{"sh", "-c", "echo started; sleep 1d"},
			Env: []corev1.EnvVar{{Name: "GREETING", Value: "hello"}}}}}}
}

// createRunning creates a pod, and waits until it runs.
func createRunning(t testing.TB, client kubernetes.Interface, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pods := client.CoreV1().Pods("default")
	controlplanetest.Must[*corev1.Pod](t)(pods.Create(t.Context(), pod, metav1.CreateOptions{}))
	w, err := pods.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted && p.Status.Phase == corev1.PodRunning &&
			p.Status.ContainerStatuses[0].State.Running != nil {
			return p
		}
	}
	t.Fatal("the watch has ended")
	return nil
}

// execURL returns the URL of a command.
func execURL(client kubernetes.Interface, pod string, o *corev1.PodExecOptions) *url.URL {
	return client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource("exec").VersionedParams(o, scheme.ParameterCodec).URL()
}

// spdyTransport returns client-go's transport for SPDY in the process.
func spdyTransport(plane *controlplane.ControlPlane) (*spdy.SpdyRoundTripper, error) {
	return spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{PingPeriod: 5 * time.Second, UpgradeTransport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return plane.Dial(ctx) }}})
}

// inProcessExecutors are the ways to execute a command without a socket.
func inProcessExecutors(plane *controlplane.ControlPlane) map[string]func(u *url.URL) (remotecommand.Executor, error) {
	return map[string]func(u *url.URL) (remotecommand.Executor, error){
		"WebSocket": func(u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(plane.Config(), "GET", u.String())
		},
		"SPDY": func(u *url.URL) (remotecommand.Executor, error) {
			rt, err := spdyTransport(plane)
			if err != nil {
				return nil, err
			}
			return remotecommand.NewSPDYExecutorForTransports(rt, clientspdy.NewUpgraderForStreaming(rt), "POST", u)
		},
	}
}

// httpsExecutors are the ways to execute a command over HTTPS.
func httpsExecutors(cfg *rest.Config) map[string]func(u *url.URL) (remotecommand.Executor, error) {
	return map[string]func(u *url.URL) (remotecommand.Executor, error){
		"WebSocket": func(u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(cfg, "GET", u.String())
		},
		"SPDY": func(u *url.URL) (remotecommand.Executor, error) { return remotecommand.NewSPDYExecutor(cfg, "POST", u) },
		"SPDY v1": func(u *url.URL) (remotecommand.Executor, error) {
			return oldExecutor(cfg, u, "channel.k8s.io")
		},
		"SPDY v2": func(u *url.URL) (remotecommand.Executor, error) { return oldExecutor(cfg, u, "v2.channel.k8s.io") },
		"SPDY v3": func(u *url.URL) (remotecommand.Executor, error) { return oldExecutor(cfg, u, "v3.channel.k8s.io") },
	}
}

// oldExecutor returns an executor with an old version of the protocol.
func oldExecutor(cfg *rest.Config, u *url.URL, protocol string) (remotecommand.Executor, error) {
	transport, upgrader, err := clientspdy.RoundTripperFor(cfg)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewSPDYExecutorForProtocols(transport, upgrader, "POST", u, protocol)
}

// TestSPDYWithoutSocket: client-go's SPDY dials by itself, so a configuration without a socket refuses it, and the error says
// what works.
func TestSPDYWithoutSocket(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	client := controlplanetest.ClientFor(t, plane.Config())
	user, err := plane.UserConfig("ada")
	if err != nil {
		t.Fatal(err)
	}
	exec := connectionURL(client, "web", "exec")
	for name, err := range map[string]error{
		"exec":           stream(remotecommand.NewSPDYExecutor(plane.Config(), "POST", exec)),
		"exec by a user": stream(remotecommand.NewSPDYExecutor(user, "POST", exec)),
		"port forward":   forward(plane.Config(), connectionURL(client, "web", "portforward"), false),
	} {
		for _, want := range []string{"remotecommand.NewWebSocketExecutor", "portforward.NewSPDYOverWebsocketDialer", "ControlPlane.Dial", "docs/pods.md"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v; want %s", name, err, want)
			}
		}
	}
}

// output is an output that client-go may still write after the executor has returned, if the context has ended.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// run executes a command.
func run(ctx context.Context, client kubernetes.Interface, executor func(*url.URL) (remotecommand.Executor, error), pod, stdin string, tty bool, command ...string) (out, stderr string, err error) {
	e, err := executor(execURL(client, pod, &corev1.PodExecOptions{Command: command, Stdin: stdin != "", Stdout: true, Stderr: !tty, TTY: tty}))
	if err != nil {
		return "", "", err
	}
	var a, b output
	o := remotecommand.StreamOptions{Stdout: &a, Tty: tty}
	if stdin != "" {
		o.Stdin = strings.NewReader(stdin)
	}
	if !tty {
		o.Stderr = &b
	}
	err = e.StreamWithContext(ctx, o)
	return a.String(), b.String(), err
}

// TestInterruptedStreams ends streams from both sides. The bubble finds goroutines that are left.
func TestInterruptedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		for name, executor := range inProcessExecutors(plane) {
			createRunning(t, client, sleeper("web"))
			ended := make(chan int, 1)
			remove, err := plane.Pods().HandleExec(runtime.Selector{Command: "endless"}, func(ctx context.Context, p *runtime.Process) int {
				<-ctx.Done()
				ended <- 1
				return 1
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, _, err := run(ctx, client, executor, "web", strings.Repeat("x", 900<<10), false, "endless") // which does not read
				done <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the client that has gone gets %v", name, err)
			}
			<-ended // the command learns that the client has gone
			remove()
			// The pod goes while commands and logs run.
			logs, err := client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"sleep 1d", "cat", "yes > /dev/null", "while sleep 1; do echo x; done"} {
				go func() {
					_, _, err := run(t.Context(), client, executor, "web", strings.Repeat("x", 1<<20), false, "sh", "-c", command)
					done <- err
				}()
			}
			time.Sleep(time.Second) // virtual
			zero := int64(0)
			if err := client.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				<-done
			}
			if text, err := io.ReadAll(logs); string(text) != "started\n" || err != nil {
				t.Errorf("%s: the log of a deleted pod is %q, %v", name, text, err)
			}
			if _, _, err := run(t.Context(), client, executor, "web", "", false, "true"); err == nil || !strings.Contains(err.Error(), "not found") {
				t.Errorf("%s: a command in a deleted pod: %v", name, err)
			}
		}
		time.Sleep(time.Minute) // virtual: client-go's heartbeats end
	})
}

// TestStopEndsStreams stops a control plane while streams run.
func TestStopEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{})
		if err != nil {
			t.Fatal(err)
		}
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		done := make(chan error)
		for _, executor := range inProcessExecutors(plane) {
			go func() {
				_, _, err := run(t.Context(), client, executor, "web", "x", false, "sleep", "1d")
				done <- err
			}()
		}
		logs, err := client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer logs.Close()
		synctest.Wait()
		start := time.Now()
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
		<-done
		<-done
		_, _ = io.ReadAll(logs)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("the end takes %v", d)
		}
		if _, err := plane.Dial(t.Context()); err == nil {
			t.Error("a connection to a control plane that has stopped")
		}
	})
}

// TestMalformedUpgrades sends requests that are no proper upgrades.
func TestMalformedUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		const exec, forward = "/api/v1/namespaces/default/pods/web/exec?command=true&stdout=1", "/api/v1/namespaces/default/pods/web/portforward"
		for _, tc := range []struct {
			method, path string
			headers      string
			code         int
			want         string
		}{
			{"POST", exec, "", 400, "Upgrade request required"},
			{"GET", forward, "", 400, "Upgrade request required"},
			{"POST", exec, "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", 400, "X-Stream-Protocol-Version does not exist"},
			{"POST", exec, "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v9\r\n", 403, "unable to negotiate protocol"},
			{"POST", exec, "Connection: Upgrade\r\nUpgrade: h2c\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n", 400, "missing upgrade headers"},
			{"GET", exec, "Connection: Upgrade\r\nUpgrade: websocket\r\n", 400, ""},
			{"GET", exec, "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v9\r\n", 403, ""},
			{"POST", "/api/v1/namespaces/default/pods/web/exec?command=true", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n", 400, "you must specify at least 1 of stdin, stdout, stderr"},
			{"POST", "/api/v1/namespaces/default/pods/web/exec?stdout=1&container=x", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", 400, "container x is not valid for pod web"},
			{"GET", forward, "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 400, "query parameter"},
			{"POST", forward, "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: x\r\n", 403, "unable to negotiate protocol"},
		} {
			conn, err := plane.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			go fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n%s\r\n", tc.method, tc.path, tc.headers)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s %s with %q: %v", tc.method, tc.path, tc.headers, err)
				continue
			}
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != tc.code || !strings.Contains(string(body), tc.want) {
				t.Errorf("%s %s with %q: %d %s; want %d %s", tc.method, tc.path, tc.headers, response.StatusCode, body, tc.code, tc.want)
			}
			conn.Close()
		}
		// A client that upgrades and then sends nonsense, or nothing.
		for _, nonsense := range []string{"", "\x80\x03\x00\x01\xff\xff\xff\xff", "GET / HTTP/1.1\r\n\r\n"} {
			for _, headers := range []string{"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n",
				"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n"} {
				conn, err := plane.Dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				go fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n%s\r\n%s", exec, headers, nonsense)
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || response.StatusCode != 101 {
					t.Errorf("%q: %v", headers, err)
				}
				go io.Copy(io.Discard, conn)
				time.Sleep(time.Second) // virtual
				conn.Close()
			}
		}
	})
}

// TestWebSocketsOfReads: logs and watches are sent over WebSockets, which end with them. A client that does not read does not keep the
// control plane from stopping.
func TestWebSocketsOfReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		pod := sleeper("web")
		pod.Spec.Containers[0].Command = []string{"sh", "-c", "echo alive; sleep 1000"}
		createRunning(t, controlplanetest.ClientFor(t, plane.Config()), pod)
		for path, want := range map[string]string{"pods/web/log": "alive\n", "pods?watch=true&timeoutSeconds=5": `"type":"ADDED"`} {
			conn, r := readOverWebSocket(t, plane, path)
			if frames, err := io.ReadAll(r); err != nil || !strings.Contains(string(frames), want) {
				t.Errorf("%s: %q, %v", path, frames, err)
			}
			conn.Close()
		}
		readOverWebSocket(t, plane, "pods?watch=true")
	})
}

// readOverWebSocket requests logs or a watch in the default namespace over a WebSocket, and returns the reader of the frames.
func readOverWebSocket(t *testing.T, plane *controlplane.ControlPlane, path string) (net.Conn, io.Reader) {
	t.Helper()
	conn, err := plane.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	protocol := ""
	if strings.HasSuffix(path, "log") {
		protocol = "Sec-WebSocket-Protocol: binary.k8s.io\r\n"
	}
	go fmt.Fprintf(conn, "GET /api/v1/namespaces/default/%s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://x\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n", path, protocol)
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%s: %v, %v", path, response, err)
	}
	return conn, r
}

// TestConnectAdmission: a webhook sees the commands of clients, and refuses them.
func TestConnectAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		plane := controlplanetest.Start(t, controlplane.Options{DialWebhook: hooks.Dial})
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		var mu sync.Mutex
		var seen []string
		hook := controlplanetest.ValidatingWebhook("exec", hooks.Handle("exec", func(w http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) {
			var o corev1.PodExecOptions
			if err := json.Unmarshal(review.Request.Object.Raw, &o); err != nil {
				t.Error(err)
			}
			mu.Lock()
			seen = append(seen, fmt.Sprintf("%s %s %s/%s %s %q", review.Request.Operation, review.Request.Kind.Kind, review.Request.Resource.Resource, review.Request.SubResource, review.Request.Name, o.Command))
			mu.Unlock()
			allowed := len(o.Command) > 0 && o.Command[0] == "true"
			controlplanetest.Respond(w, review, admissionv1.AdmissionResponse{Allowed: allowed, Result: &metav1.Status{Message: "only true"}})
		}), "pods/exec")
		hook.Rules = controlplanetest.WebhookRule("pods/exec", admissionregistrationv1.Connect)
		controlplanetest.CreateValidating(t, client, "exec", hook)
		for name, executor := range inProcessExecutors(plane) {
			if _, _, err := run(t.Context(), client, executor, "web", "", false, "true"); err != nil {
				t.Errorf("%s: a command that is allowed: %v", name, err)
			}
			if _, _, err := run(t.Context(), client, executor, "web", "", false, "env"); err == nil || !strings.Contains(err.Error(), "only true") {
				t.Errorf("%s: a command that is refused: %v", name, err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 4 || seen[0] != `CONNECT PodExecOptions pods/exec web ["true"]` || seen[1] != `CONNECT PodExecOptions pods/exec web ["env"]` {
			t.Errorf("the webhook has seen %q", seen)
		}
	})
}

// TestAuditOfConnections: the audit log has the user and the pod of each command, attachment, log, forwarded port and proxy request, once
// when the connection is made and once when it ends.
func TestAuditOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log output
		policy := []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, resources: [{resources: [pods/*]}], omitStages: [RequestReceived]}]")
		plane := controlplanetest.Start(t, controlplane.Options{Audit: auditlog.Options{Policy: policy, Writer: &log}})
		admin := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, admin, sleeper("web"))
		l, err := plane.Pods().Listen(runtime.Selector{Pod: "web"}, 80)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go server.Serve(l)
		defer server.Close()
		as := func(user string) (*rest.Config, kubernetes.Interface) {
			cfg := plane.Config()
			cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
			return cfg, controlplanetest.ClientFor(t, cfg)
		}
		cfg, ann := as("ann")
		nobody := plane.Config()
		nobody.Impersonate.UserName = "bob"
		bob := controlplanetest.ClientFor(t, nobody)
		written := func() (events []auditv1.Event) {
			synctest.Wait()
			for line := range strings.Lines(log.String()) {
				var e auditv1.Event
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				if e.ImpersonatedUser == nil {
					e.ImpersonatedUser = &e.User
				}
				switch e.ObjectRef.Subresource {
				case "", "status", "binding": // of clients that wait for the pod, of kubelet and of kube-scheduler
				default:
					events = append(events, e)
				}
			}
			return events
		}
		webSocket := func(cfg *rest.Config) func(*url.URL) (remotecommand.Executor, error) {
			return func(u *url.URL) (remotecommand.Executor, error) {
				return remotecommand.NewWebSocketExecutor(cfg, "GET", u.String())
			}
		}
		seen := 0
		want := func(what string, events ...string) {
			t.Helper()
			all := written()
			var got []string
			for _, e := range all[seen:] {
				got = append(got, fmt.Sprintf("%s %s %s %s/%s %s/%s %d", e.Stage, e.ImpersonatedUser.Username, e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource,
					e.ObjectRef.Namespace, e.ObjectRef.Name, e.ResponseStatus.Code))
			}
			if seen = len(all); fmt.Sprint(got) != fmt.Sprint(events) {
				t.Errorf("%s: the events are %q, want %q", what, got, events)
			}
		}
		if out, _, err := run(t.Context(), ann, webSocket(cfg), "web", "", false, "echo", "x"); out != "x\n" || err != nil {
			t.Fatal(out, err)
		}
		want("exec", "ResponseStarted ann get pods/exec default/web 101", "ResponseComplete ann get pods/exec default/web 101")
		if all := written(); !strings.Contains(all[0].RequestURI, "/exec?command=echo&command=x") {
			t.Errorf("the URI of the command is %s", all[0].RequestURI)
		}
		if _, _, err := run(t.Context(), bob, webSocket(nobody), "web", "", false, "echo", "x"); err == nil {
			t.Error("everybody may execute commands")
		}
		want("exec without access", "ResponseStarted bob get pods/exec default/web 403", "ResponseComplete bob get pods/exec default/web 403")
		attached, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		e, err := webSocket(cfg)(connectionURL(ann, "web", "attach"))
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- e.StreamWithContext(attached, remotecommand.StreamOptions{Stdout: io.Discard}) }()
		want("attach", "ResponseStarted ann get pods/attach default/web 101")
		cancel()
		<-ended
		time.Sleep(time.Minute) // virtual, until the client sends no more pings
		want("the end of attach", "ResponseComplete ann get pods/attach default/web 101")
		if got := logsOf(t, ann, "web", corev1.PodLogOptions{}); got != "started\n" {
			t.Errorf("the log is %q", got)
		}
		want("logs", "ResponseStarted ann get pods/log default/web 200", "ResponseComplete ann get pods/log default/web 200")
		forward := connectSPDY(t, plane, connectionURL(admin, "web", "portforward"), "portforward.k8s.io") // as the administrator
		want("port-forward", "ResponseStarted flyball-admin create pods/portforward default/web 101")
		forward.Close()
		want("the end of port-forward", "ResponseComplete flyball-admin create pods/portforward default/web 101")
		if err := ann.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("proxy").Do(t.Context()).Error(); err != nil {
			t.Error(err)
		}
		want("proxy", "ResponseStarted ann create pods/proxy default/web 200", "ResponseComplete ann create pods/proxy default/web 200")
	})
}

// connectSPDY upgrades a request by hand.
func connectSPDY(t *testing.T, plane *controlplane.ControlPlane, at *url.URL, protocol string) httpstream.Connection {
	t.Helper()
	rt, err := spdyTransport(plane)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(httpstream.HeaderProtocolVersion, protocol)
	response, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rt.NewConnection(response)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// createStream creates a stream with headers, given as name and value in turn.
func createStream(t *testing.T, conn httpstream.Connection, headers ...string) httpstream.Stream {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	s, err := conn.CreateStream(h)
	if err != nil {
		t.Fatalf("a stream with %q: %v", headers, err)
	}
	return s
}

// refuses reports whether a stream with headers is reset at once. A client cannot tell that from an end.
func refuses(conn httpstream.Connection, headers ...string) bool {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	start := time.Now()
	s, err := conn.CreateStream(h)
	if err == nil {
		_, _ = io.ReadAll(s)
	}
	return time.Since(start) < time.Second
}

// TestStreamAccess: users execute commands and read logs by their rights, and the executor is told why it may not.
func TestStreamAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		admin := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, admin, sleeper("web"))
		controlplanetest.GrantCluster(t, admin, "operator", "operator", controlplanetest.PolicyRule("get,create", "", "pods/exec"))
		controlplanetest.GrantCluster(t, admin, "reader", "reader", controlplanetest.PolicyRule("get", "", "pods/log"))
		controlplanetest.GrantCluster(t, admin, "nodes", "nodes", controlplanetest.PolicyRule("get", "", "nodes/proxy", "flyball"))
		for _, tc := range []struct{ user, exec, log, node string }{
			{"operator", "", `cannot get resource "pods/log"`, `cannot get resource "nodes/proxy"`},
			{"reader", `cannot get resource "pods/exec"`, "", `cannot get resource "nodes/proxy"`},
			{"nodes", `cannot get resource "pods/exec"`, `cannot get resource "pods/log"`, ""},
		} {
			cfg, err := plane.UserConfig(tc.user)
			if err != nil {
				t.Fatal(err)
			}
			client := controlplanetest.ClientFor(t, cfg)
			out, _, err := run(t.Context(), client, func(u *url.URL) (remotecommand.Executor, error) {
				return remotecommand.NewWebSocketExecutor(cfg, "GET", u.String())
			}, "web", "", false, "echo", "hi")
			check := func(what, want, got string, ok bool) {
				if (want == "") != ok || !strings.Contains(got, want) {
					t.Errorf("%s of %s: %s", what, tc.user, got)
				}
			}
			check("the command", tc.exec, fmt.Sprint(err), out == "hi\n" && err == nil)
			log := logsOf(t, client, "web", corev1.PodLogOptions{})
			check("the log", tc.log, log, log == "started\n")
			code, body := controlplanetest.Sender(t, cfg)("GET", "/api/v1/nodes/flyball/proxy/healthz", "", "")
			check("the proxy", strings.ReplaceAll(tc.node, `"`, `\"`), string(body), code == 200)
		}
		time.Sleep(time.Minute) // virtual: client-go's heartbeats end
	})
}
