package encryption_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kms/pkg/service"

	"flyball.dev/controlplane/encryption"
)

// plugin is a KMS plugin with one key.
type plugin struct {
	aead               cipher.AEAD
	broken             atomic.Bool
	encrypted, decoded atomic.Int64
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

func (p *plugin) Decrypt(_ context.Context, _ string, r *service.DecryptRequest) ([]byte, error) {
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

// serve serves a plugin on a socket until the test ends.
func (p *plugin) serve(t testing.TB, socket string) {
	t.Helper()
	s := service.NewGRPCService(socket, time.Second, p)
	done := make(chan error)
	go func() { done <- s.ListenAndServe() }()
	t.Cleanup(func() {
		s.Shutdown()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestKMS encrypts with a KMS plugin. The plugin is asked for a key once, and not for each Secret. /readyz fails while the
// plugin does.
func TestKMS(t *testing.T) {
	sockets, err := os.MkdirTemp("", "kms") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	p := newPlugin(t)
	socket := filepath.Join(sockets, "s")
	p.serve(t, socket)
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	configure(t, file, "  - kms: {apiVersion: v2, name: test, endpoint: 'unix://"+socket+"', timeout: 1s}\n")

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
		if err := e.ReadyChecks[0].Check(); (err != nil) != broken {
			t.Errorf("broken is %v, and the check returns %v", broken, err)
		}
		e.Close()
	}
}
