package compat

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	_ "flyball.dev/internal/orphans"
	"flyball.dev/internal/reserve/reservetest"
)

var update = flag.Bool("update", false, "write what the operator prints with controller-runtime to testdata/outcome.txt")

const outcomeFile = "testdata/outcome.txt"

// The operator does the same on controller-runtime and on Flyball.
func TestOperator(t *testing.T) {
	if *update {
		if err := os.WriteFile(outcomeFile, []byte(outcome(t)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(outcomeFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{"controller-runtime": nil, "flyball": {"-modfile=flyball.mod"}} {
		t.Run(name, func(t *testing.T) {
			got, want := strings.Split(outcome(t, flags...), "\n"), strings.Split(string(want), "\n")
			for i := range max(len(got), len(want)) {
				switch {
				case i >= len(got):
					t.Errorf("line %d is missing: %s", i+1, want[i])
				case i >= len(want):
					t.Errorf("line %d is not expected: %s", i+1, got[i])
				case got[i] != want[i]:
					t.Errorf("line %d:\n got %s\nwant %s", i+1, got[i], want[i])
				}
			}
		})
	}
}

// The operator imports every package that the module compat has.
func TestImports(t *testing.T) {
	imports := strings.Fields(run(t, ".", "go", "list", "-f", `{{join .Imports "\n"}}`, "./operator/..."))
	packages := strings.Fields(run(t, "../../compat", "go", "list", "./..."))
	if len(packages) < 40 {
		t.Fatalf("only %d packages were listed", len(packages))
	}
	for _, p := range packages {
		if !slices.Contains(strings.Split(p, "/"), "internal") && !slices.Contains(imports, p) {
			t.Errorf("the operator does not import %s", p)
		}
	}
}

func run(t *testing.T, dir string, command ...string) string {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Dir = dir
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", command, err, out, stderr.Bytes())
	}
	return string(out)
}

// outcome builds the operator, runs it on a control plane, and returns its output.
func outcome(t *testing.T, flags ...string) string {
	operator := filepath.Join(t.TempDir(), "operator")
	run(t, ".", slices.Concat([]string{"go", "build", "-o", operator}, flags, []string{"./operator"})...)

	plane, err := controlplane.Start(context.Background(), controlplane.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	clients, err := apiextensions.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), definition(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "kubeconfig"), plane.Kubeconfig())
	writeCertificate(t, dir)
	return run(t, ".", operator, "--kubeconfig="+filepath.Join(dir, "kubeconfig"), "--certificates="+dir,
		fmt.Sprint("--webhooks=", reservetest.Port(t)), "--metrics="+reservetest.Address(t), "--probes="+reservetest.Address(t))
}

// definition returns the definition of the kind Widget.
func definition() *apiextensionsv1.CustomResourceDefinition {
	schema := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: new(true),
	}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.compat.flyball.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "compat.flyball.dev",
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: schema,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

// writeCertificate writes a certificate for this host that its own key has signed.
func writeCertificate(t *testing.T, dir string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	write(t, filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func write(t *testing.T, name string, content []byte) {
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
