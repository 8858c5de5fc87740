package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/kubeflags"
	"flyball.dev/internal/reserve/reservetest"
)

// accountsKey writes a key for service accounts.
func accountsKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "accounts.key")
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// parsed returns parsed flags of kube-apiserver.
func parsed(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	kubeflags.Add(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

// usual are the flags that envtest sets.
func usual(t *testing.T, key string, more ...string) []string {
	return append([]string{"--etcd-servers=http://127.0.0.1:2379", "--secure-port=6443", "--bind-address=127.0.0.1",
		"--cert-dir=" + t.TempDir(), "--service-account-issuer=https://127.0.0.1:6443/", "--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key, "--allow-privileged=true", "--disable-admission-plugins=ServiceAccount"}, more...)
}

// TestServerOptions reads flags.
func TestServerOptions(t *testing.T) {
	key := accountsKey(t)
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("secret,ann,1,\"staff,night\"\nother,bob,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(controllers.Variable, "")
	o, err := serverOptions(parsed(t, usual(t, key)...))
	if err != nil {
		t.Fatal(err)
	}
	if o.Listen != "127.0.0.1:6443" || o.AuthorizationMode != "AlwaysAllow" || !o.WithoutControllers || o.WithoutAnonymous ||
		o.DeletionDelay != 5*time.Millisecond || o.ServiceNetwork != netip.MustParsePrefix("10.0.0.0/24") || o.MaxRequestsInFlight != 400 ||
		o.ServiceAccounts.Issuers[0] != "https://127.0.0.1:6443/" || len(o.ServiceAccounts.Keys) != 1 || o.AdvertiseAddress.IsValid() ||
		!slices.Contains(o.Admission.Enable, "StorageObjectInUseProtection") || !slices.Equal(o.Admission.Disable, []string{"ServiceAccount"}) {
		t.Errorf("the usual flags: %+v", o)
	}
	t.Setenv(controllers.Variable, "garbagecollector, namespace")
	o, err = serverOptions(parsed(t, usual(t, key, "--authorization-mode=Node,RBAC", "--anonymous-auth=false",
		"--service_cluster_ip_range=10.1.0.0/16,fd00::/112", "--max-requests-inflight=0", "--max-mutating-requests-inflight=7",
		"--advertise-address=192.0.2.3", "--token-auth-file="+tokens, "--enable-admission-plugins=NodeRestriction,AlwaysPullImages",
		"--audit-log-path=-", "--audit-log-maxage=3", "--api-audiences=a,b", "--service-account-issuer=https://former")...))
	if err != nil {
		t.Fatal(err)
	}
	if o.AuthorizationMode != "Node,RBAC" || !o.WithoutAnonymous || o.ServiceNetwork != netip.MustParsePrefix("10.1.0.0/16") ||
		o.MaxRequestsInFlight != -1 || o.MaxMutatingRequestsInFlight != 7 || o.AdvertiseAddress != netip.MustParseAddr("192.0.2.3") ||
		!slices.Contains(o.Admission.Enable, "AlwaysPullImages") || o.Audit.LogPath != "-" || o.Audit.MaxAge != 3 || o.Audit.Format != "json" ||
		!slices.Equal(o.ServiceAccounts.Audiences, []string{"a", "b"}) || len(o.ServiceAccounts.Issuers) != 2 {
		t.Errorf("more flags: %+v", o)
	}
	if ann := o.Tokens["secret"]; ann == nil || ann.Name != "ann" || ann.UID != "1" || !slices.Equal(ann.Groups, []string{"staff", "night"}) || o.Tokens["other"] == nil {
		t.Errorf("the tokens are %v", o.Tokens)
	}
	if o.WithoutControllers || len(o.Controllers.Without) != len(controllers.Names())-2 {
		t.Errorf("without the controllers %v", o.Controllers.Without)
	}
}

// TestServerErrors has flags that are refused.
func TestServerErrors(t *testing.T) {
	key := accountsKey(t)
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("a-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"--secure-port=0":                                      "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
		"--authorization-mode=Foo":                             `authorization-mode "Foo" is not a valid mode`,
		"--authorization-mode=RBAC,Node,RBAC":                  `authorization-mode ["RBAC" "Node" "RBAC"] has mode specified more than once`,
		"--authorization-mode=Webhook":                         `authorization-mode "Webhook" is not implemented`,
		"--enable-admission-plugins=ServiceAccount":            "[ServiceAccount] in enable-admission-plugins and disable-admission-plugins overlapped",
		"--tls-cert-file=" + key:                               "--tls-private-key-file must be set with --tls-cert-file",
		"--service-cluster-ip-range=10.0.0.0":                  `--service-cluster-ip-range: netip.ParsePrefix("10.0.0.0"): no '/'`,
		"--client-ca-file=/missing/ca.crt":                     "--client-ca-file: open /missing/ca.crt: no such file or directory",
		"--token-auth-file=" + bad:                             "--token-auth-file " + bad + ": line 1: expected token, user and uid",
		"--requestheader-client-ca-file=" + bad:                "--requestheader-client-ca-file " + bad + " has no certificate in PEM",
		"--service-account-signing-key-file=/missing/accounts": "--service-account-signing-key-file /missing/accounts: open /missing/accounts: no such file or directory",
		"--client-ca-file=" + bad:                              "--client-ca-file " + bad + " has no certificate in PEM",
		"--service-account-issuer=:":                           `service-account-issuer ":" contained a ':' but was not a valid URL: parse ":": missing protocol scheme`,
		"--max-requests-inflight=-1":                           "--max-requests-inflight can not be negative value",
		"--max-mutating-requests-inflight=-1":                  "--max-mutating-requests-inflight can not be negative value",
		"--cert-dir=" + bad + "/certificates":                  "error creating self-signed certificates: stat " + bad + "/certificates/apiserver.crt: not a directory",
	} {
		_, err := serverOptions(parsed(t, usual(t, key, flag)...))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "a-secret") {
			t.Errorf("%s: %v\nwant %s", flag, err, want)
		}
	}
	pair := parsed(t, usual(t, key, "--tls-cert-file=/missing/tls.crt", "--tls-private-key-file="+key)...)
	if _, err := serverOptions(pair); err == nil || !strings.HasPrefix(err.Error(), "--tls-cert-file /missing/tls.crt, --tls-private-key-file "+key+": ") {
		t.Errorf("a serving certificate that is missing: %v", err)
	}
	if _, err := serverOptions(parsed(t)); err == nil || !strings.HasPrefix(err.Error(), "--etcd-servers must be specified\nservice-account-issuer is a required flag\n") {
		t.Errorf("without flags: %v", err)
	}
	t.Setenv(controllers.Variable, "namespace,gardener")
	_, err := serverOptions(parsed(t, usual(t, key)...))
	if want := controllers.Variable + `: "gardener" is not in the list of known controllers: garbage-collector-controller, namespace-controller, `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("an unknown controller: %v", err)
	}
}

// TestServerFlags has flags that are parsed as kube-apiserver does.
func TestServerFlags(t *testing.T) {
	run := func(args ...string) (string, error) {
		cmd := kubeAPIServer()
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	for flag, want := range map[string]string{
		"--bogus":                       "unknown flag: --bogus",
		"-x":                            "unknown shorthand flag: 'x' in -x",
		"--etcd-servers":                "flag needs an argument: --etcd-servers",
		"extra":                         `"kube-apiserver" does not take any arguments, got ["extra"]`,
		"--secure-port=abc":             `invalid argument "abc" for "--secure-port" flag: strconv.ParseInt: parsing "abc": invalid syntax`,
		"--runtime-config=v1":           `invalid argument "v1" for "--runtime-config" flag: malformed pair, expect string=string`,
		"--feature-gates=A=maybe":       "invalid value of A=maybe, expect true or false",
		"--service-node-port-range=abc": `invalid argument "abc" for "--service-node-port-range" flag: strconv.Atoi: parsing "abc": invalid syntax`,
	} {
		if _, err := run(flag); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", flag, err, want)
		}
	}
	out, err := run("--help")
	if err != nil || !regexp.MustCompile(`(?m)^\s*--secure-port\b`).MatchString(out) || regexp.MustCompile(`(?m)^\s*--insecure-port\b`).MatchString(out) {
		t.Errorf("--help: %v\n%s", err, out)
	}
	if out, err := run("--version"); err != nil || out != "Kubernetes "+controlplane.KubernetesVersion+"\n" {
		t.Errorf("--version: %s, %v", out, err)
	}
}

func TestFeatureGates(t *testing.T) {
	const gate = "WatchList"
	was := utilfeature.DefaultFeatureGate.Enabled(gate)
	defer func() {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{gate: was}); err != nil {
			t.Error(err)
		}
	}()
	if err := setFeatureGates(parsed(t, "--feature-gates=kube:WatchList=false,SomethingElse=true")); err != nil || utilfeature.DefaultFeatureGate.Enabled(gate) {
		t.Errorf("the gate is on: %v", err)
	}
}

// TestStopDuringStart stops the program before it has started, which is no error.
func TestStopDuringStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := kubeAPIServer()
	cmd.SetErr(io.Discard)
	cmd.SetArgs(usual(t, accountsKey(t), "--secure-port="+strconv.Itoa(reservetest.Port(t))))
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Error(err)
	}
}

// TestServe starts the control plane for flags, and again with the certificate that the first start
// has created.
func TestServe(t *testing.T) {
	port, certificates := strconv.Itoa(reservetest.Port(t)), t.TempDir()
	args := usual(t, accountsKey(t), "--secure-port="+port, "--cert-dir="+certificates)
	var first []byte
	for range 2 {
		o, err := serverOptions(parsed(t, args...))
		if err != nil {
			t.Fatal(err)
		}
		plane, err := controlplane.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		root, err := os.ReadFile(filepath.Join(certificates, "apiserver.crt"))
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && string(first) != string(root) {
			t.Error("the certificate was replaced")
		}
		first = root
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(root)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		for _, path := range []string{"/healthz", "/livez", "/readyz"} {
			resp, err := (&http.Client{Transport: transport}).Get("https://127.0.0.1:" + port + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", path, resp.Status)
			}
		}
		transport.CloseIdleConnections()
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(filepath.Join(certificates, "apiserver.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
}
