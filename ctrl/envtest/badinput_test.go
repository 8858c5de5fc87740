package envtest_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/envtest"
)

const validCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

const webhookWithoutPath = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: checks}
webhooks:
- name: check.example.com
  clientConfig: {service: {name: webhook, namespace: system}}
  admissionReviewVersions: [v1]
  sideEffects: None
`

// The error says which file, or which option, and what to do. Nothing is left of the environment.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port

	for _, test := range []struct {
		name string
		env  *envtest.Environment
		set  func(t *testing.T, env *envtest.Environment)
		want []string
	}{
		{name: "no CRD directory", env: &envtest.Environment{
			CRDDirectoryPaths: []string{filepath.Join(dir, "nowhere")}, ErrorIfCRDPathMissing: true,
		}, want: []string{"correct the path in CRDDirectoryPaths", "nowhere", "no such file"}},
		{name: "YAML that does not parse", env: &envtest.Environment{
			CRDDirectoryPaths: []string{filepath.Dir(write("broken/b.yaml", validCRD+"\n---\nkind: [CustomResourceDefinition\n"))},
		}, want: []string{"broken/b.yaml: document 2", "yaml: line"}},
		{name: "a field of the wrong type", env: &envtest.Environment{
			CRDDirectoryPaths: []string{write("typed.yaml", strings.Replace(validCRD, "served: true", "served: 1", 1))},
		}, want: []string{"typed.yaml: document 1", "served"}},
		{name: "an old version", env: &envtest.Environment{
			CRDDirectoryPaths: []string{write("old.yaml", strings.Replace(validCRD, "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1", 1))},
		}, want: []string{"old.yaml: document 1", "v1beta1", "convert it to apiextensions.k8s.io/v1"}},
		{name: "a definition that is refused", env: &envtest.Environment{
			CRDDirectoryPaths: []string{write("refused.yaml", strings.Replace(validCRD, "type: object", "type: number", 1))},
		}, want: []string{"refused.yaml", `"widgets.example.com"`, "spec.validation.openAPIV3Schema.type", "must be object"}},
		{name: "no webhook directory", env: &envtest.Environment{
			WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join(dir, "nowhere")}},
		}, want: []string{"correct the path in WebhookInstallOptions.Paths", "nowhere"}},
		{name: "a webhook in a file without a path", env: &envtest.Environment{
			WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{write("webhook.yaml", webhookWithoutPath)}},
		}, want: []string{"webhook.yaml", `"check.example.com"`, `"checks"`, "set clientConfig.service.path"}},
		{name: "a webhook without a service", env: &envtest.Environment{
			WebhookInstallOptions: envtest.WebhookInstallOptions{MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
				ObjectMeta: metav1.ObjectMeta{Name: "defaults"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "default.example.com"}},
			}}},
		}, want: []string{`"default.example.com"`, `"defaults"`, "set clientConfig.service.path"}},
		{name: "a webhook configuration that is refused", env: &envtest.Environment{
			WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{write("rejected.yaml", strings.Replace(
				strings.Replace(webhookWithoutPath, "namespace: system", "namespace: system, path: /x", 1), "sideEffects: None", "sideEffects: Some", 1))}},
		}, want: []string{"rejected.yaml", `"checks"`, "webhooks[0].sideEffects"}},
		{name: "a port in use", env: &envtest.Environment{}, set: func(_ *testing.T, env *envtest.Environment) {
			env.ControlPlane.GetAPIServer().SecureServing.Port = strconv.Itoa(port)
		}, want: []string{"cannot listen on 127.0.0.1:" + strconv.Itoa(port), "in use"}},
		{name: "a directory that does not exist", env: &envtest.Environment{}, set: func(t *testing.T, _ *envtest.Environment) {
			t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
		}, want: []string{"the certificate of the webhook server", filepath.Join(dir, "missing"), "TMPDIR"}},
		{name: "an authorization mode", env: &envtest.Environment{}, set: func(_ *testing.T, env *envtest.Environment) {
			env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "ABAC")
		}, want: []string{"authorization-mode", "ABAC", "not implemented"}},
		{name: "a flag that kube-apiserver does not have", env: &envtest.Environment{}, set: func(_ *testing.T, env *envtest.Environment) {
			env.ControlPlane.GetAPIServer().Configure().Set("insecure-port", "0")
		}, want: []string{"flag of the API server", "unknown flag: --insecure-port"}},
		{name: "a range of cluster IPs", env: &envtest.Environment{}, set: func(_ *testing.T, env *envtest.Environment) {
			env.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0")
		}, want: []string{"--service-cluster-ip-range", "no '/'"}},
		{name: "a file of authorities", env: &envtest.Environment{}, set: func(_ *testing.T, env *envtest.Environment) {
			env.ControlPlane.GetAPIServer().Configure().Set("client-ca-file", filepath.Join(dir, "ca.crt"))
		}, want: []string{"--client-ca-file", filepath.Join(dir, "ca.crt"), "no such file"}},
		{name: "an admission plugin", env: &envtest.Environment{}, set: func(_ *testing.T, env *envtest.Environment) {
			env.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "Typo")
		}, want: []string{`"Typo"`, "NamespaceLifecycle"}},
		{name: "a file of tokens", env: &envtest.Environment{}, set: func(_ *testing.T, env *envtest.Environment) {
			env.ControlPlane.GetAPIServer().Configure().Set("token-auth-file", write("tokens.csv", "secret-token,ann\n"))
		}, want: []string{"token-auth-file", "tokens.csv", "line 1"}},
		{name: "a template in Args", env: &envtest.Environment{}, set: func(_ *testing.T, env *envtest.Environment) {
			env.ControlPlane.GetAPIServer().Args = []string{"--x={{ .Typo }}"}
		}, want: []string{"Args", "Typo"}},
		{name: "a timeout", env: &envtest.Environment{}, set: func(t *testing.T, _ *envtest.Environment) {
			t.Setenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "soon")
		}, want: []string{"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "soon"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.set != nil {
				test.set(t, test.env)
			}
			cfg, err := test.env.Start()
			if err == nil {
				t.Fatal("no error")
			}
			if cfg != nil {
				t.Error("a configuration is returned with the error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "secret-token") {
				t.Errorf("error %q contains a token", err)
			}
			if dir := test.env.WebhookInstallOptions.LocalServingCertDir; dir != "" {
				if _, err := os.Stat(dir); !os.IsNotExist(err) {
					t.Errorf("%s is left: %v", dir, err)
				}
			}
			if err := test.env.Stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
	}
}

// Paths that do not exist are ignored unless an option says otherwise, and of files that have the same
// definition the last one counts.
func TestReadCRDFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.yaml":      validCRD,
		"b.yml":       "apiVersion: v1\nkind: ConfigMap\n---\n" + strings.Replace(validCRD, "served: true", "served: false", 1),
		"notes.txt":   "kind: [",
		"sub/c.yaml":  "kind: [",
		"kustom.json": `{"kind":"Kustomization","apiVersion":"kustomize.config.k8s.io/v1beta1"}`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := envtest.CRDInstallOptions{Paths: []string{filepath.Join(dir, "nowhere"), dir}}
	if err := envtest.ReadCRDFiles(&o); err != nil {
		t.Fatal(err)
	}
	if len(o.CRDs) != 1 || o.CRDs[0].Spec.Versions[0].Served {
		t.Errorf("read %v", o.CRDs)
	}
}

// A definition that is nil is an error that says where it is.
func TestNilDefinitions(t *testing.T) {
	for want, env := range map[string]*envtest.Environment{
		"CRDs[1] is nil":                   {CRDs: []*crdV1{widgets(), nil}},
		"CRDInstallOptions.CRDs[0] is nil": {CRDInstallOptions: envtest.CRDInstallOptions{CRDs: []*crdV1{nil}}},
	} {
		if _, err := env.Start(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
			_ = env.Stop()
		}
	}
	if err := envtest.ReadCRDFiles(&envtest.CRDInstallOptions{CRDs: []*crdV1{nil}}); err == nil {
		t.Error("ReadCRDFiles: no error")
	}
}
