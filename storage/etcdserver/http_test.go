package etcdserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"flyball.dev/storage"
	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/memory"
)

// full is a store on a full disk.
type full struct{ *memory.Store }

func (full) Healthy() error { return storage.ErrNoSpace }

var _ storage.Checker = full{}

func TestProbes(t *testing.T) {
	get := func(s *etcdserver.Server, path string) string {
		r := httptest.NewRecorder()
		s.ServeHTTP(r, httptest.NewRequest("GET", path, nil))
		return r.Result().Status + " " + r.Body.String()
	}
	well := etcdserver.New(etcdserver.Options{Store: memory.New(memory.Options{})})
	defer well.Stop()
	ill := etcdserver.New(etcdserver.Options{Store: full{memory.New(memory.Options{})}})
	defer ill.Stop()
	for _, test := range []struct {
		server     *etcdserver.Server
		path, want string
	}{
		{well, "/health", `200 OK {"health":"true","reason":""}`},
		{well, "/readyz", "200 OK ok\n"},
		{well, "/version", `200 OK {"etcdserver":"3.7.0","etcdcluster":"3.7.0","storage":"3.7.0"}`},
		{well, "/v2/keys", "404 Not Found 404 page not found\n"},
		{ill, "/health", `503 Service Unavailable {"health":"false","reason":"storage: no space left"}`},
		{ill, "/livez", "503 Service Unavailable storage: no space left\n"},
	} {
		if got := get(test.server, test.path); got != test.want {
			t.Errorf("%s: %q, want %q", test.path, got, test.want)
		}
	}
}

// TestTLS serves gRPC and HTTP on one port with TLS. Stop ends a watch.
func TestTLS(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	s := etcdserver.New(etcdserver.Options{Store: store})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certificates := httptest.NewUnstartedServer(nil)
	certificates.StartTLS()
	defer certificates.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener, &tls.Config{Certificates: certificates.TLS.Certificates}) }()

	client := certificates.Client()
	response, err := client.Get("https://" + listener.Addr().String() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the health is %s", response.Status)
	}
	roots := client.Transport.(*http.Transport).TLSClientConfig.RootCAs
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w, err := etcdserverpb.NewWatchClient(conn).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watching := &stream{t, w}
	watching.create(&etcdserverpb.WatchCreateRequest{Key: []byte("a")})
	s.Stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := w.Recv(); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the watch has ended with %v", err)
	}
}
