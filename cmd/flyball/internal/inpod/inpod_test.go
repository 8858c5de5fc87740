package inpod

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestServerOf(t *testing.T) {
	proxy := func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy:3128") }
	for _, tt := range []struct {
		config rest.Config
		want   Server
		err    string
	}{
		{config: rest.Config{Host: "https://127.0.0.1:6443"}, want: Server{"127.0.0.1", "6443"}},
		{config: rest.Config{Host: "https://api.example.com/"}, want: Server{"api.example.com", "443"}},
		{config: rest.Config{Host: "https://[::1]:6443"}, want: Server{"::1", "6443"}},
		{config: rest.Config{Host: "http://127.0.0.1:8080"}, err: "the API server at http://127.0.0.1:8080 has no HTTPS"},
		{config: rest.Config{Host: "https://rancher/k8s/clusters/c-1"}, err: "the URL https://rancher/k8s/clusters/c-1 of the API server has a path"},
		{config: rest.Config{Host: "https://10.0.0.1", TLSClientConfig: rest.TLSClientConfig{ServerName: "api"}}, err: "is for the name api"},
		{config: rest.Config{Host: "https://10.0.0.1", Proxy: proxy}, err: "the kubeconfig has a proxy"},
	} {
		got, err := ServerOf(&tt.config)
		if got != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %+v, %v", tt.config.Host, got, err)
		}
	}
}

func TestEnv(t *testing.T) {
	want := []string{
		"KUBERNETES_SERVICE_HOST=::1", "KUBERNETES_SERVICE_PORT=6443", "KUBERNETES_SERVICE_PORT_HTTPS=6443", "KUBERNETES_PORT=tcp://[::1]:6443",
		"KUBERNETES_PORT_6443_TCP=tcp://[::1]:6443", "KUBERNETES_PORT_6443_TCP_PROTO=tcp", "KUBERNETES_PORT_6443_TCP_PORT=6443", "KUBERNETES_PORT_6443_TCP_ADDR=::1",
	}
	got := Server{"::1", "6443"}.Env()
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for _, v := range append(got, "KUBECONFIG=/x") {
		if !Foreign(v) {
			t.Errorf("%s is not foreign", v)
		}
	}
	for _, v := range []string{"HOME=/root", "KUBE=1", "KUBERNETES_DIR=/x", "KUBERNETES_PORTAL=1", "KUBECONFIGS=x"} {
		if Foreign(v) {
			t.Errorf("%s is foreign", v)
		}
	}
}

func TestParseAccount(t *testing.T) {
	if a, err := ParseAccount("ns/name"); err != nil || a != (Account{"ns", "name"}) || a.String() != "ns/name" {
		t.Errorf("%v, %v", a, err)
	}
	for _, text := range []string{"", "name", "/name", "ns/", "a/b/c"} {
		if _, err := ParseAccount(text); err == nil {
			t.Errorf("%q is an account", text)
		}
	}
}

func TestRenewalOf(t *testing.T) {
	now := time.Unix(1e9, 0)
	for lifetime, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 8 * time.Minute, time.Hour: 48 * time.Minute, 24 * time.Hour: 19*time.Hour + 12*time.Minute, 48 * time.Hour: 24 * time.Hour,
	} {
		if got := renewalOf(now, now.Add(lifetime)).Sub(now); got != want {
			t.Errorf("a token of %v is renewed after %v", lifetime, got)
		}
	}
}

// TestKubeconfig: the alternative has the cluster of the context, and no credentials but the token.
func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	content := clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"a": {Server: "https://a/path", CertificateAuthorityData: []byte("CA")}, "b": {Server: "https://b"}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"admin": {Token: "secret"}},
		Contexts: map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "admin", Namespace: "x"}, "b": {Cluster: "b", AuthInfo: "admin"},
			"none": {Cluster: "c"}},
		CurrentContext: "a",
	}
	for context, want := range map[string]string{"": "https://a/path", "b": "https://b"} {
		text, err := Kubeconfig(content, context, Account{"ns", "name"}, token)
		if err != nil {
			t.Fatal(err)
		}
		made, err := clientcmd.Load(text)
		if err != nil || len(made.Clusters) != 1 || strings.Contains(string(text), "secret") {
			t.Fatalf("%v: %s", err, text)
		}
		loaded := clientcmd.NewDefaultClientConfig(*made, nil)
		config, err := loaded.ClientConfig()
		if err != nil || config.Host != want || config.BearerTokenFile != token {
			t.Errorf("%+v, %v", config, err)
		}
		if namespace, _, err := loaded.Namespace(); namespace != "ns" || err != nil {
			t.Errorf("the namespace is %s, %v", namespace, err)
		}
	}
	if _, err := Kubeconfig(content, "none", Account{}, token); err == nil {
		t.Error("a context without a cluster")
	}
}
