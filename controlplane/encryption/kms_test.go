package encryption_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kmsapi "k8s.io/kms/apis/v2"
	"k8s.io/kms/pkg/service"

	"flyball.dev/controlplane/encryption"
)

// plugin is a KMS plugin with one key.
type plugin struct {
	aead               cipher.AEAD
	broken             atomic.Bool
	encrypted, decoded atomic.Int64
	// hang, if not nil, gets a value when Decrypt begins to wait for the end of its call, and another one at the end.
	hang chan struct{}
}

func newPlugin(t testing.TB) *plugin {
	t.Helper()
	block, err := aes.NewCipher(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return &plugin{aead: aead}
}

var errBroken = errors.New("the plugin is broken")

// Encrypt implements service.Service.
func (p *plugin) Encrypt(_ context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	if p.broken.Load() {
		return nil, errBroken
	}
	p.encrypted.Add(1)
	nonce := make([]byte, p.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return &service.EncryptResponse{Ciphertext: p.aead.Seal(nonce, nonce, data, nil), KeyID: "1"}, nil
}

func (p *plugin) Decrypt(ctx context.Context, _ string, r *service.DecryptRequest) ([]byte, error) {
	if p.hang != nil {
		p.hang <- struct{}{}
		<-ctx.Done()
		p.hang <- struct{}{}
	}
	if p.broken.Load() {
		return nil, errBroken
	}
	p.decoded.Add(1)
	n := p.aead.NonceSize()
	return p.aead.Open(nil, r.Ciphertext[:n], r.Ciphertext[n:], nil)
}

func (p *plugin) Status(context.Context) (*service.StatusResponse, error) {
	if p.broken.Load() {
		return nil, errBroken
	}
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: "1"}, nil
}

// serve serves a plugin on a socket until the test ends. The socket takes connections when serve returns.
func (p *plugin) serve(t testing.TB, socket string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(s, service.NewGRPCService(socket, time.Second, p))
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.GracefulStop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// serveKMS serves a plugin, and writes a configuration with it.
func serveKMS(t testing.TB, p *plugin, timeout string) (file string) {
	t.Helper()
	sockets, err := os.MkdirTemp("", "kms") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	socket := filepath.Join(sockets, "s")
	p.serve(t, socket)
	file = filepath.Join(t.TempDir(), "encryption.yaml")
	configure(t, file, "  - kms: {apiVersion: v2, name: test, endpoint: 'unix://"+socket+"', timeout: "+timeout+"}\n")
	return file
}

// TestKMS encrypts with a KMS plugin. The plugin is asked for a key once, and not for each Secret. /readyz fails while the
// plugin does.
func TestKMS(t *testing.T) {
	p := newPlugin(t)
	dir, file := t.TempDir(), serveKMS(t, p, "1s")

	with(t, dir, file, false, func(c kubernetes.Interface) {
		for _, name := range []string{"a", "b", "c", "d"} {
			if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if value := stored(t, dir, "a"); !bytes.HasPrefix(value, []byte("k8s:enc:kms:v2:test:")) || contains(t, dir, secretText) {
		t.Errorf("the value begins with %q, or the text of a Secret is in a file", value[:min(len(value), 30)])
	}
	if n := p.encrypted.Load(); n == 0 || n > 2 {
		t.Errorf("the plugin has encrypted %d keys", n)
	}
	with(t, dir, file, false, func(c kubernetes.Interface) {
		if err := check(t.Context(), c, "a"); err != nil {
			t.Errorf("after a restart: %v", err)
		}
	})
	if p.decoded.Load() == 0 {
		t.Error("the plugin has decrypted nothing")
	}

	for _, broken := range []bool{false, true} {
		p.broken.Store(broken)
		e, err := encryption.Load(file, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.ReadyChecks) != 1 || e.ReadyChecks[0].Name != "kms-providers" {
			t.Fatalf("the checks are %+v", e.ReadyChecks)
		}
		if err := e.ReadyChecks[0].Check(t.Context()); (err != nil) != broken {
			t.Errorf("broken is %v, and the check returns %v", broken, err)
		}
		e.Close()
	}
}

// TestKMSHealth asks the endpoints of a server while its plugin fails.
func TestKMSHealth(t *testing.T) {
	p := newPlugin(t)
	file := serveKMS(t, p, "1s")
	for _, reload := range []bool{false, true} {
		for _, broken := range []bool{false, true} {
			p.broken.Store(broken)
			with(t, t.TempDir(), file, reload, func(c kubernetes.Interface) {
				for endpoint, checked := range map[string]bool{"/readyz": true, "/healthz": true, "/livez": false} {
					for _, path := range []string{"", "/kms-providers"} {
						code, want := http.StatusOK, http.StatusOK
						if _, err := c.CoreV1().RESTClient().Get().AbsPath(endpoint + path).DoRaw(t.Context()); err != nil {
							code = int(statusOf(t, err, apierrors.ReasonForError(err)).Code)
						}
						switch {
						case !checked && path != "":
							want = http.StatusNotFound
						case checked && broken:
							want = http.StatusInternalServerError
						}
						if code != want {
							t.Errorf("%s%s with a plugin that is broken (%v): status %d, want %d", endpoint, path, broken, code, want)
						}
					}
				}
			})
		}
	}
}

// TestKMSRequestEnds ends a request while the plugin does not answer. The call of the plugin ends too, long before its timeout.
func TestKMSRequestEnds(t *testing.T) {
	p := newPlugin(t)
	dir, file := t.TempDir(), serveKMS(t, p, "10m")
	with(t, dir, file, false, func(c kubernetes.Interface) {
		if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret("s"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	p.hang = make(chan struct{})
	for name, request := range map[string]func(context.Context, kubernetes.Interface) error{
		"get": func(ctx context.Context, c kubernetes.Interface) error { return check(ctx, c, "s") },
		"list": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			return err
		},
		"update": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Secrets("default").Update(ctx, secret("s"), metav1.UpdateOptions{})
			return err
		},
		"unsafe delete": func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Secrets("default").Delete(ctx, "s", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, dir, file, false, func(c kubernetes.Interface) {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- request(ctx, c) }()
				<-p.hang
				cancel()
				<-p.hang
				if err := <-done; err == nil {
					t.Error("no error")
				}
			})
		})
	}
	p.hang = nil
	with(t, dir, file, false, func(c kubernetes.Interface) {
		if err := check(t.Context(), c, "s"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
