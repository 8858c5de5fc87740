package controlplane

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/authn"
	"flyball.dev/storage/memory"
)

func TestURL(t *testing.T) {
	for _, tc := range []struct{ address, listening, want string }{
		{"127.0.0.1:0", "127.0.0.1:6443", "https://127.0.0.1:6443"},
		{"localhost:6443", "127.0.0.1:6443", "https://127.0.0.1:6443"},
		{"[::1]:6443", "[::1]:6443", "https://[::1]:6443"},
		{"0.0.0.0:0", "[::]:6443", "https://127.0.0.1:6443"},
		{"0.0.0.0:0", "0.0.0.0:6443", "https://127.0.0.1:6443"},
		{":6443", "[::]:6443", "https://127.0.0.1:6443"},
		{"[::]:6443", "[::]:6443", "https://[::1]:6443"},
	} {
		listening, err := net.ResolveTCPAddr("tcp", tc.listening)
		if err != nil {
			t.Fatal(err)
		}
		if got := urlOf(tc.address, listening); got != tc.want {
			t.Errorf("a listener for %s on %s is reached at %s; want %s", tc.address, tc.listening, got, tc.want)
		}
	}
}

// TestServingNames verifies the certificate of a server by the names that are added.
func TestServingNames(t *testing.T) {
	names := []string{"lb.example.com", "*.apps.example.com", "203.0.113.7"}
	plane, err := Start(t.Context(), Options{Listen: "127.0.0.1:0", WithoutControllers: true, ServingNames: names})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(plane.URL(), "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	leaf := conn.ConnectionState().PeerCertificates[0]
	for _, name := range []string{"lb.example.com", "web.apps.example.com", "203.0.113.7", "127.0.0.1", "kubernetes.default.svc"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if leaf.VerifyHostname("other.example.com") == nil {
		t.Error("the certificate is valid for other.example.com")
	}
	for _, name := range []string{"", "https://lb.example.com", "lb.example.com:6443", "a.*.example.com"} {
		if plane, err := Start(t.Context(), Options{Listen: "127.0.0.1:0", ServingNames: []string{name}}); err == nil {
			t.Errorf("%q is accepted", name)
			plane.Stop()
		}
	}
}

// TestListenOnAllAddresses connects with the kubeconfig.
func TestListenOnAllAddresses(t *testing.T) {
	plane, err := Start(t.Context(), Options{Listen: "0.0.0.0:0", WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	cfg, client := kubeconfigClient(t, plane, 2)
	if !strings.HasPrefix(cfg.Host, "https://127.0.0.1:") {
		t.Errorf("the kubeconfig has %s", cfg.Host)
	}
	clients, err := kubernetes.NewForConfigAndClient(cfg, client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// stack is an API server with HTTPS over connections in memory.
type stack struct {
	t        *testing.T
	api      *apiserver.Server
	https    *httpsServer
	listener *memoryListener
	ca       *authority
	clients  []*http.Client
}

const guestToken = "guest-token"

// newStack starts an API server that is stopped when the test ends.
func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{t: t, listener: newMemoryListener()}
	store := memory.New(memory.Options{})
	var err error
	if s.ca, err = newAuthority(); err != nil {
		t.Fatal(err)
	}
	s.api, err = apiserver.New(apiserver.Options{
		Storage: store,
		Authentication: authn.Config{
			ClientCA: s.ca.pool(),
			Tokens:   map[string]*user.DefaultInfo{guestToken: {Name: "guest"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.https, err = serveHTTPS("127.0.0.1:443", s.listener, s.ca, nil, s.api); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stop()
		for _, c := range s.clients {
			c.CloseIdleConnections()
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stack) stop() {
	s.api.Stop()
	if err := s.https.stop(); err != nil {
		s.t.Error(err)
	}
}

// tls returns the administrator's configuration. The default protocol is HTTP/1.1.
func (s *stack) tls(protocols ...string) *tls.Config {
	s.t.Helper()
	admin, err := s.ca.administrator()
	if err != nil {
		s.t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(admin.cert, admin.key)
	if err != nil {
		s.t.Fatal(err)
	}
	return &tls.Config{RootCAs: s.ca.pool(), ServerName: "localhost", Certificates: []tls.Certificate{cert}, NextProtos: protocols}
}

// client returns a client for a version of HTTP, 1 or 2.
func (s *stack) client(version int) *http.Client {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(version == 1)
	protocols.SetHTTP2(version == 2)
	c := &http.Client{Transport: &http.Transport{DialContext: s.listener.dial, TLSClientConfig: s.tls(), Protocols: protocols, DisableCompression: true}}
	s.clients = append(s.clients, c)
	return c
}

// sendRaw sends text over a connection of its own, and returns after how long the server has closed
// the connection.
func (s *stack) sendRaw(text string) time.Duration {
	s.t.Helper()
	c, err := s.listener.dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	conn := tls.Client(c, s.tls())
	defer conn.Close()
	io.WriteString(conn, text)
	if _, err := io.ReadAll(conn); err != nil {
		s.t.Error(err)
	}
	return time.Since(began)
}

// kubeconfigClient returns the configuration in a control plane's kubeconfig, and a client with it,
// for a version of HTTP, 1 or 2.
func kubeconfigClient(t *testing.T, plane *ControlPlane, version int) (*rest.Config, *http.Client) {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if version == 1 {
		cfg.NextProtos = []string{"http/1.1"}
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return cfg, client
}

// answer is the response to a request, or its error.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
	after  time.Duration
}

func (a answer) String() string {
	return fmt.Sprintf("%d %v %q, %v, after %v", a.status, a.header, a.body, a.err, a.after)
}

func send(t *testing.T, client *http.Client, method, path string, body io.Reader) answer {
	began := time.Now()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://localhost"+path, body)
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err, after: time.Since(began)}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(data), err, time.Since(began)}
}

// overBoth runs a test in virtual time for each version of HTTP.
func overBoth(t *testing.T, test func(t *testing.T, s *stack, client *http.Client)) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStack(t)
				test(t, s, s.client(version))
			})
		})
	}
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func TestStalledBody(t *testing.T) {
	for _, tc := range []struct {
		name, method, path string
		after              time.Duration
	}{
		{"create", http.MethodPost, configMaps, apiserver.RequestTimeout},
		{"create with a timeout of the client's", http.MethodPost, configMaps + "?timeout=5s", 5 * time.Second},
		{"create with a timeout that is too long", http.MethodPost, configMaps + "?timeout=1h", apiserver.RequestTimeout},
		{"update", http.MethodPut, configMaps + "/x", apiserver.RequestTimeout},
		{"delete", http.MethodDelete, configMaps + "/x", apiserver.RequestTimeout},
		{"review", http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", apiserver.RequestTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, s *stack, client *http.Client) {
				stalled, begin := io.Pipe()
				defer begin.Close()
				go io.WriteString(begin, `{"metadata":{`)
				got := send(t, client, tc.method, tc.path, stalled)
				if got.status != http.StatusGatewayTimeout || !strings.Contains(got.body, `"reason":"Timeout"`) || got.after != tc.after {
					t.Errorf("got %v; want 504 Timeout after %v", got, tc.after)
				}
				if got := send(t, client, http.MethodGet, configMaps, nil); got.status != http.StatusOK {
					t.Errorf("the next request got %v", got)
				}
			})
		})
	}
}

// TestStalledBodyOfRejectedRequest sends requests that are rejected before their body is read: an
// HTTP/1.1 server reads the rest of it even so.
func TestStalledBodyOfRejectedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t)
		open := s.sendRaw("POST /api/v1/nonsense HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc")
		if open > apiserver.RequestTimeout+time.Second {
			t.Errorf("the connection was open for %v", open)
		}
	})
}

func TestStalledHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t)
		if open := s.sendRaw("GET /api HTTP/1.1\r\nHost: local"); open > time.Minute {
			t.Errorf("the connection was open for %v", open)
		}
	})
}

// TestStalledReader requests more than connections buffer and does not read the response until the request has timed out. The response
// ends with an error then, as from kube-apiserver, and not as if it were complete.
func TestStalledReader(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, client *http.Client) {
		large := strings.Repeat("x", 1<<20)
		for n := range 8 {
			if got := send(t, client, http.MethodPost, configMaps, strings.NewReader(fmt.Sprintf(`{"metadata":{"name":"x%d"},"data":{"a":"%s"}}`, n, large))); got.status != http.StatusCreated {
				t.Fatal(got)
			}
		}
		for _, test := range []struct {
			query string
			left  time.Duration
		}{{"", apiserver.RequestTimeout}, {"?timeout=5s", 5 * time.Second}, {"?timeout=1h", apiserver.RequestTimeout}} {
			resp, err := client.Get("https://localhost" + configMaps + test.query)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(test.left - time.Millisecond) // virtual
			if _, err := io.CopyN(io.Discard, resp.Body, 1<<10); err != nil {
				t.Errorf("%q: the response has ended before the timeout: %v", test.query, err)
			}
			time.Sleep(time.Second)
			s.https.inFlight.Wait()
			if size, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Errorf("%q: the response of %d bytes seems complete", test.query, size)
			} else if resp.ProtoMajor == 2 && !strings.Contains(err.Error(), "INTERNAL_ERROR") {
				t.Errorf("%q: %v", test.query, err)
			}
			resp.Body.Close()
		}
	})
}

// TestWatchHasNoDeadline receives events after all deadlines of other requests.
func TestWatchHasNoDeadline(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, client *http.Client) {
		resp, err := client.Get("https://localhost" + configMaps + "?watch=true&timeoutSeconds=3600")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		events := bufio.NewReader(resp.Body)
		for n := range 3 {
			time.Sleep(10 * time.Minute) // virtual
			if got := send(t, client, http.MethodPost, configMaps, strings.NewReader(fmt.Sprintf(`{"metadata":{"name":"x%d"}}`, n))); got.status != http.StatusCreated {
				t.Fatal(got)
			}
			line, err := events.ReadString('\n')
			if err != nil || !strings.Contains(line, fmt.Sprintf(`"name":"x%d"`, n)) {
				t.Fatalf("event %d is %q, %v", n, line, err)
			}
		}
		s.stop()
		if rest, err := io.ReadAll(events); err != nil || len(rest) > 0 {
			t.Errorf("the watch ended with %q, %v; want nothing more", rest, err)
		}
	})
}

// TestStopUnderLoad stops a server with requests in every state: each gets a complete response or a
// 503.
func TestStopUnderLoad(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, client *http.Client) {
		answers := make(chan answer)
		halves := make([]*io.PipeWriter, 100)
		for n := range halves {
			var half *io.PipeReader
			half, halves[n] = io.Pipe()
			go func() { answers <- send(t, client, http.MethodPost, configMaps, half) }()
			go fmt.Fprintf(halves[n], `{"metadata":{"name":"x%d"}`, n)
		}
		synctest.Wait()
		for _, h := range halves[:len(halves)/2] { // the others send no more
			go func() {
				io.WriteString(h, "}")
				h.Close()
			}()
		}
		stopped := make(chan struct{})
		go func() {
			s.stop()
			close(stopped)
		}()
		counts := map[int]int{}
		for range halves {
			got := <-answers
			counts[got.status]++
			switch {
			case got.err != nil:
				t.Error(got)
			case got.status == http.StatusCreated && strings.Contains(got.body, `"uid"`):
			case got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") == "1" && strings.Contains(got.body, "shutting down"):
			default:
				t.Error(got)
			}
		}
		<-stopped
		for _, h := range halves {
			h.Close()
		}
		if counts[http.StatusServiceUnavailable] != len(halves)/2 {
			t.Errorf("the responses are %v; want 503 only for those with an incomplete body", counts)
		}
		if got := send(t, client, http.MethodGet, configMaps, nil); got.err == nil {
			t.Errorf("after the stop a request got %v", got)
		}
	})
}

// TestLateRequest sends a request on an open connection while the server waits for another one.
func TestLateRequest(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, client *http.Client) {
		if got := send(t, client, http.MethodGet, configMaps, nil); got.status != http.StatusOK {
			t.Fatal(got)
		}
		s.api.Stop()
		got := send(t, client, http.MethodGet, configMaps, nil)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, `"reason":"ServiceUnavailable"`) {
			t.Errorf("a late request got %v; want 503", got)
		}
	})
}

// TestStopOfIdleServer: nothing waits for connections without requests.
func TestStopOfIdleServer(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, client *http.Client) {
		if got := send(t, client, http.MethodGet, "/version", nil); got.status != http.StatusOK {
			t.Fatal(got)
		}
		synctest.Wait()
		began := time.Now()
		s.stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("the stop took %v", took)
		}
	})
	t.Run("control plane", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			plane, err := Start(t.Context(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := send(t, &http.Client{Transport: plane.transport}, http.MethodGet, "/version", nil); got.status != http.StatusOK {
				t.Error(got)
			}
			synctest.Wait()
			began := time.Now()
			if err := plane.Stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("the stop took %v", took)
			}
		})
	})
}

func TestStalledBodyInProcess(t *testing.T) {
	start := func(t *testing.T) (*ControlPlane, *http.Client) {
		plane, err := Start(t.Context(), Options{WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		return plane, &http.Client{Transport: plane.transport}
	}
	stalled := func(t *testing.T) io.Reader {
		stalled, begin := io.Pipe()
		go io.WriteString(begin, `{"metadata":{`)
		return stalled
	}
	for path, after := range map[string]time.Duration{configMaps: apiserver.RequestTimeout, configMaps + "?timeout=5s": 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			plane, client := start(t)
			defer plane.Stop()
			if got := send(t, client, http.MethodPost, path, stalled(t)); got.status != http.StatusGatewayTimeout || got.after != after {
				t.Errorf("got %v; want 504 after %v", got, after)
			}
		})
	}
	t.Run("stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			plane, client := start(t)
			answers := make(chan answer, 1)
			go func() { answers <- send(t, client, http.MethodPost, configMaps, stalled(t)) }()
			synctest.Wait()
			if err := plane.Stop(); err != nil {
				t.Error(err)
			}
			if got := <-answers; got.status != http.StatusServiceUnavailable || got.after > time.Second {
				t.Errorf("got %v; want 503 soon", got)
			}
		})
	})
	t.Run("cancel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			plane, client := start(t)
			defer plane.Stop()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x"+configMaps, stalled(t))
			if err != nil {
				t.Fatal(err)
			}
			if _, err = client.Do(req); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v; want that the deadline is exceeded", err)
			}
		})
	})
}

// TestStopWithUnreadWatch has more events than the pipe of an in-process watch buffers.
func TestStopWithUnreadWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := Start(t.Context(), Options{WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: plane.transport}
		resp, err := client.Get("http://x" + configMaps + "?watch=true")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for n := range 4 {
			body := fmt.Sprintf(`{"metadata":{"name":"x%d"},"data":{"a":"%s"}}`, n, strings.Repeat("x", pipeBuffer))
			if got := send(t, client, http.MethodPost, configMaps, strings.NewReader(body)); got.status != http.StatusCreated {
				t.Fatal(got)
			}
		}
		synctest.Wait()
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

func TestConnectionsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnections()
		one, other := newMemoryConns()
		c.stateChanged(one, http.StateNew)
		c.stateChanged(one, http.StateActive)
		c.stateChanged(other, http.StateIdle)
		answered := c.activeClosed()
		waiting := func(most time.Duration, condition func() bool) (done func() time.Duration) {
			took := make(chan time.Duration)
			began := time.Now()
			go func() {
				c.wait(most, condition)
				took <- time.Since(began)
			}()
			return func() time.Duration { return <-took }
		}
		if took := waiting(time.Second, c.idle)(); took != time.Second {
			t.Errorf("with an active connection, waited for %v", took)
		}
		done := waiting(time.Hour, c.idle)
		time.Sleep(time.Minute) // virtual
		c.stateChanged(one, http.StateIdle)
		if took := done(); took != time.Minute {
			t.Errorf("until the connection was idle, waited for %v", took)
		}
		done = waiting(time.Hour, answered)
		time.Sleep(time.Minute) // virtual
		c.stateChanged(one, http.StateClosed)
		if took := done(); took != time.Minute {
			t.Errorf("until the connection was closed, waited for %v", took)
		}
	})
}
