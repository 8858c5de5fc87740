package builder_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/conversion"
	"flyball.dev/ctrl/internal/testserver"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/admission"
	webhookconversion "flyball.dev/ctrl/webhook/conversion"
)

// Widget is a kind with two versions. The hub is v1.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Size              int `json:"size"`
}

func (w *Widget) DeepCopyObject() runtime.Object { c := *w; return &c }

func (w *Widget) Hub() {}

type OldWidget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Length            int `json:"length"`
}

func (w *OldWidget) DeepCopyObject() runtime.Object { c := *w; return &c }

func (w *OldWidget) ConvertTo(dst conversion.Hub) error {
	hub := dst.(*Widget)
	hub.ObjectMeta, hub.Size = w.ObjectMeta, w.Length
	return nil
}

func (w *OldWidget) ConvertFrom(src conversion.Hub) error {
	hub := src.(*Widget)
	w.ObjectMeta, w.Length = hub.ObjectMeta, hub.Size
	return nil
}

func widgetVersion(v string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "shop.example.org", Version: v, Kind: "Widget"}
}

// widgetScheme returns a scheme with widgets, and with the kinds that the tests read.
func widgetScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypeWithName(widgetVersion("v1"), &Widget{})
	scheme.AddKnownTypeWithName(widgetVersion("v1beta1"), &OldWidget{})
	metav1.AddToGroupVersion(scheme, widgetVersion("v1").GroupVersion())
	return scheme
}

func widgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.shop.example.org"}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "shop.example.org", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
	}
	preserve := true
	for _, v := range []string{"v1", "v1beta1"} {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: v, Served: true, Storage: v == "v1",
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: &preserve,
			}},
		})
	}
	return crd
}

// widgetRules sets the size to 1 if it is 0, and refuses widgets of the size 13 and the deletion of
// any.
type widgetRules struct{}

func (widgetRules) Default(_ context.Context, w *Widget) error {
	if w.Size == 0 {
		w.Size = 1
	}
	return nil
}

func (widgetRules) ValidateCreate(_ context.Context, w *Widget) (admission.Warnings, error) {
	if w.Size == 13 {
		return admission.Warnings{"unlucky"}, errors.New("13 is not a size")
	}
	return nil, nil
}

func (r widgetRules) ValidateUpdate(ctx context.Context, _, w *Widget) (admission.Warnings, error) {
	return r.ValidateCreate(ctx, w)
}

func (widgetRules) ValidateDelete(context.Context, *Widget) (admission.Warnings, error) {
	return nil, errors.New("widgets are for ever")
}

// anyRules are rules for any type.
type anyRules struct{ err error }

func (r anyRules) Default(context.Context, runtime.Object) error { return r.err }

func (r anyRules) ValidateCreate(context.Context, runtime.Object) (admission.Warnings, error) {
	return nil, r.err
}

func (r anyRules) ValidateUpdate(context.Context, runtime.Object, runtime.Object) (admission.Warnings, error) {
	return nil, r.err
}

func (r anyRules) ValidateDelete(context.Context, runtime.Object) (admission.Warnings, error) {
	return nil, r.err
}

// plane returns the configuration of an API server with the definition of widgets.
func plane(t *testing.T) *rest.Config {
	t.Helper()
	config := testserver.Start(t)
	c, err := client.New(config, client.Options{Scheme: widgetScheme(t)})
	if err == nil {
		err = c.Create(t.Context(), widgetDefinition())
	}
	if err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, func() error {
		_, err := c.RESTMapper().RESTMapping(widgetVersion("v1").GroupKind(), "v1")
		return err
	})
	return config
}

// webhookManager returns a manager with a webhook server on a free port.
func webhookManager(t *testing.T, config *rest.Config, o webhook.Options) manager.Manager {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	o.Listener = listener
	mgr, err := manager.New(config, manager.Options{
		Scheme: widgetScheme(t), Metrics: metricsserver.Options{BindAddress: "0"}, WebhookServer: webhook.NewServer(o),
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// call sends a review as an API server does, with the configuration of a webhook alone.
func call(t *testing.T, url *string, caBundle []byte, in, out any) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caBundle) {
		t.Fatalf("the CA bundle is %q", caBundle)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Post(*url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err == nil {
		err = json.Unmarshal(body, out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
}

func review(operation admissionv1.Operation, size int) *admissionv1.AdmissionReview {
	raw := fmt.Appendf(nil, `{"apiVersion":"shop.example.org/v1","kind":"Widget","metadata":{"name":"w"},"size":%d}`, size)
	req := &admissionv1.AdmissionRequest{UID: "u", Operation: operation}
	if operation == admissionv1.Delete {
		req.OldObject.Raw = raw
	} else {
		req.Object.Raw = raw
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req,
	}
}

// TestWebhooksAreInstalled reads back what a manager has installed, and calls the webhooks by it.
func TestWebhooksAreInstalled(t *testing.T) {
	config := plane(t)
	t.Run("first", func(t *testing.T) {
		mgr := webhookManager(t, config, webhook.Options{Install: &webhook.Install{NamePrefix: "shop-"}})
		widgets := builder.WebhookManagedBy(mgr, &Widget{}).WithDefaulter(widgetRules{}).WithValidator(widgetRules{})
		second := builder.WebhookManagedBy(mgr, &Widget{}).WithCustomValidator(anyRules{}).WithValidatorCustomPath("/second")
		pods := builder.WebhookManagedBy(mgr, &corev1.Pod{}).WithCustomDefaulter(anyRules{})
		if err := errors.Join(widgets.Complete(), second.Complete(), pods.Complete()); err != nil {
			t.Fatal(err)
		}
		run(t, mgr)
		reader := mgr.GetAPIReader()

		var mutating admissionregistrationv1.MutatingWebhookConfiguration
		var validating admissionregistrationv1.ValidatingWebhookConfiguration
		var crd apiextensionsv1.CustomResourceDefinition
		err := errors.Join(
			reader.Get(t.Context(), client.ObjectKey{Name: "shop-mutating-webhook-configuration"}, &mutating),
			reader.Get(t.Context(), client.ObjectKey{Name: "shop-validating-webhook-configuration"}, &validating),
			reader.Get(t.Context(), client.ObjectKey{Name: "widgets.shop.example.org"}, &crd))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(mutating.Webhooks); n != 2 || mutating.Webhooks[0].Name != "mwidget-v1.kb.io" || mutating.Webhooks[1].Name != "mpod-v1.kb.io" {
			t.Fatalf("the mutating webhooks are %+v", mutating.Webhooks)
		}
		if n := len(validating.Webhooks); n != 2 || validating.Webhooks[0].Name != "vwidget-v1.kb.io" || validating.Webhooks[1].Name != "vwidget-v1-2.kb.io" {
			t.Fatalf("the validating webhooks are %+v", validating.Webhooks)
		}
		m, v := mutating.Webhooks[0], validating.Webhooks[0]
		all := admissionregistrationv1.AllScopes
		rule := admissionregistrationv1.Rule{APIGroups: []string{"shop.example.org"}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}, Scope: &all}
		want := []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"}, Rule: rule}}
		if !reflect.DeepEqual(m.Rules, want) || *m.FailurePolicy != "Fail" || *m.SideEffects != "None" || m.AdmissionReviewVersions[0] != "v1" {
			t.Errorf("the mutating webhook is %+v", m)
		}
		want[0].Operations = append(want[0].Operations, "DELETE")
		if !reflect.DeepEqual(v.Rules, want) || *v.FailurePolicy != "Fail" || *v.SideEffects != "None" || v.AdmissionReviewVersions[0] != "v1" {
			t.Errorf("the validating webhook is %+v", v)
		}

		var out admissionv1.AdmissionReview
		call(t, m.ClientConfig.URL, m.ClientConfig.CABundle, review(admissionv1.Create, 0), &out)
		if r := out.Response; !r.Allowed || r.UID != "u" || string(r.Patch) != `[{"op":"replace","path":"/size","value":1}]` {
			t.Errorf("defaulting: %+v, patch %s", r, r.Patch)
		}
		for operation, message := range map[admissionv1.Operation]string{admissionv1.Create: "13 is not a size", admissionv1.Delete: "widgets are for ever"} {
			var out admissionv1.AdmissionReview
			call(t, v.ClientConfig.URL, v.ClientConfig.CABundle, review(operation, 13), &out)
			if r := out.Response; r.Allowed || r.Result.Message != message || r.Result.Code != http.StatusForbidden {
				t.Errorf("%s: %+v", operation, r)
			}
		}

		hook := crd.Spec.Conversion
		if hook.Strategy != apiextensionsv1.WebhookConverter || hook.Webhook.ConversionReviewVersions[0] != "v1" {
			t.Fatalf("the conversion is %+v", hook)
		}
		old := `{"apiVersion":"shop.example.org/v1beta1","kind":"Widget","metadata":{"name":"w"},"length":3}`
		in := apiextensionsv1.ConversionReview{Request: &apiextensionsv1.ConversionRequest{
			UID: "c", DesiredAPIVersion: "shop.example.org/v1", Objects: []runtime.RawExtension{{Raw: []byte(old)}},
		}}
		var converted apiextensionsv1.ConversionReview
		call(t, hook.Webhook.ClientConfig.URL, hook.Webhook.ClientConfig.CABundle, in, &converted)
		if r := converted.Response; r.Result.Status != "Success" || !strings.Contains(string(r.ConvertedObjects[0].Raw), `"size":3`) {
			t.Errorf("converted: %+v", r)
		}

		created := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"}}
		if err := mgr.GetClient().Create(t.Context(), created); err != nil || created.Size != 1 {
			t.Errorf("the API server's defaulted widget is %+v, %v", created, err)
		}
		refused := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "refused"}, Size: 13}
		err = mgr.GetClient().Create(t.Context(), refused)
		if !apierrors.IsForbidden(err) || err.Error() != `admission webhook "vwidget-v1.kb.io" denied the request: 13 is not a size` {
			t.Errorf("the API server answered %v", err)
		}
		read := &OldWidget{}
		if err := reader.Get(t.Context(), client.ObjectKeyFromObject(created), read); err != nil || read.Length != 1 {
			t.Errorf("the API server's converted widget is %+v, %v", read, err)
		}

		late := builder.WebhookManagedBy(mgr, &corev1.Secret{}).WithCustomValidator(anyRules{}).Complete()
		if late == nil || !strings.Contains(late.Error(), "/validate--v1-secret cannot be installed") {
			t.Errorf("a webhook that comes too late: %v", late)
		}
	})

	t.Run("again, with fewer", func(t *testing.T) {
		marked := &metav1.LabelSelector{MatchLabels: map[string]string{"marked": "true"}}
		mgr := webhookManager(t, config, webhook.Options{Install: &webhook.Install{NamePrefix: "shop-", ObjectSelector: marked}})
		if err := builder.WebhookManagedBy(mgr, &Widget{}).WithDefaulter(widgetRules{}).Complete(); err != nil {
			t.Fatal(err)
		}
		run(t, mgr)
		var mutating admissionregistrationv1.MutatingWebhookConfiguration
		if err := mgr.GetAPIReader().Get(t.Context(), client.ObjectKey{Name: "shop-mutating-webhook-configuration"}, &mutating); err != nil {
			t.Fatal(err)
		}
		if len(mutating.Webhooks) != 1 || !reflect.DeepEqual(mutating.Webhooks[0].ObjectSelector, marked) {
			t.Fatalf("the webhooks are %+v", mutating.Webhooks)
		}
		var validating admissionregistrationv1.ValidatingWebhookConfiguration
		err := mgr.GetAPIReader().Get(t.Context(), client.ObjectKey{Name: "shop-validating-webhook-configuration"}, &validating)
		if err != nil || len(validating.Webhooks) > 0 {
			t.Errorf("the webhooks are %+v, %v", validating.Webhooks, err)
		}
		var out admissionv1.AdmissionReview
		call(t, mutating.Webhooks[0].ClientConfig.URL, mutating.Webhooks[0].ClientConfig.CABundle, review(admissionv1.Create, 2), &out)
		if !out.Response.Allowed {
			t.Errorf("got %+v", out.Response)
		}
	})
}

func TestInstallingForAMissingDefinition(t *testing.T) {
	config := plane(t)
	mgr := webhookManager(t, config, webhook.Options{Install: &webhook.Install{}})
	missing := schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "Gadget"}
	mgr.GetScheme().AddKnownTypeWithName(missing, &Gadget{})
	if err := builder.WebhookManagedBy(mgr, &Gadget{}).WithCustomValidator(anyRules{}).Complete(); err != nil {
		t.Fatal(err)
	}
	err := mgr.Start(t.Context())
	if err == nil {
		t.Fatal("the manager started")
	}
	for _, part := range []string{"webhooks cannot be installed", "/validate-shop-example-org-v1-gadget", `"Gadget"`, "CustomResourceDefinition must be created first"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not have %q", err, part)
		}
	}
}

// The configuration of a deployed operator has the same webhook, by Service. Nothing is installed
// then: without the operator, the webhooks would refuse all requests.
func TestInstallingBesideManifests(t *testing.T) {
	mgr := webhookManager(t, plane(t), webhook.Options{Install: &webhook.Install{}})
	none := admissionregistrationv1.SideEffectClassNone
	deployed := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "validating-webhook-configuration"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "vwidget-v1.kb.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "webhook-service"},
			},
		}},
	}
	if err := mgr.GetClient().Create(t.Context(), deployed); err != nil {
		t.Fatal(err)
	}
	widgets := builder.WebhookManagedBy(mgr, &Widget{}).WithDefaulter(widgetRules{}).WithValidator(widgetRules{})
	if err := widgets.Complete(); err != nil {
		t.Fatal(err)
	}
	err := mgr.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exactly one of url or service is required") {
		t.Errorf("the error is %v", err)
	}
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	if err := mgr.GetAPIReader().List(t.Context(), &mutating); err != nil || len(mutating.Items) > 0 {
		t.Errorf("installed: %v, %v", mutating.Items, err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := mgr.GetAPIReader().Get(t.Context(), client.ObjectKey{Name: "widgets.shop.example.org"}, &crd); err != nil {
		t.Fatal(err)
	}
	if crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
		t.Errorf("the conversion is %+v", crd.Spec.Conversion)
	}
}

type Gadget struct{ Widget }

func (g *Gadget) DeepCopyObject() runtime.Object { c := *g; return &c }

func TestInstallingWithACertificateOfAnotherHost(t *testing.T) {
	mgr := webhookManager(t, plane(t), webhook.Options{
		Install: &webhook.Install{Host: "webhooks.example.org"},
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			server := httptest.NewUnstartedServer(nil)
			server.StartTLS()
			defer server.Close()
			pair := server.TLS.Certificates[0]
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
		}},
	})
	if err := builder.WebhookManagedBy(mgr, &Widget{}).WithValidator(widgetRules{}).Complete(); err != nil {
		t.Fatal(err)
	}
	err := mgr.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "would refuse the certificate") || !strings.Contains(err.Error(), "webhooks.example.org") {
		t.Errorf("the error is %v", err)
	}
}

// The certificate that is verified and installed is the one that clients are shown, however TLSOpts
// choose it.
func TestInstallingWithACertificateOfTLSOpts(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	pair := server.TLS.Certificates[0]
	for name, set := range map[string]func(*tls.Config){
		"by the connection": func(c *tls.Config) {
			c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if _, ok := hello.Conn.RemoteAddr().(*net.TCPAddr); !ok {
					return nil, errors.New("no connection")
				}
				return &pair, hello.SupportsCertificate(&pair)
			}
		},
		"by a list": func(c *tls.Config) { c.Certificates = []tls.Certificate{pair} },
		"for clients with a certificate": func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
			c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
		},
	} {
		t.Run(name, func(t *testing.T) {
			mgr := webhookManager(t, plane(t), webhook.Options{
				Install: &webhook.Install{Host: "example.com"}, CertDir: t.TempDir(), TLSOpts: []func(*tls.Config){set},
			})
			if err := builder.WebhookManagedBy(mgr, &Widget{}).WithValidator(widgetRules{}).Complete(); err != nil {
				t.Fatal(err)
			}
			run(t, mgr)
			var all admissionregistrationv1.ValidatingWebhookConfigurationList
			if err := mgr.GetAPIReader().List(t.Context(), &all); err != nil || len(all.Items) != 1 {
				t.Fatalf("got %v, %v", all.Items, err)
			}
			block, _ := pem.Decode(all.Items[0].Webhooks[0].ClientConfig.CABundle)
			if block == nil || !bytes.Equal(block.Bytes, pair.Certificate[0]) {
				t.Error("the CA bundle is not the certificate")
			}
		})
	}
}

func TestCertificateMakesItselfInProcess(t *testing.T) {
	if testserver.External() {
		t.Skip("the API server is another process")
	}
	config := plane(t)
	mgr := webhookManager(t, config, webhook.Options{})
	if err := builder.WebhookManagedBy(mgr, &Widget{}).WithValidator(widgetRules{}).Complete(); err != nil {
		t.Fatal(err)
	}
	run(t, mgr)
	if err := mgr.GetWebhookServer().StartedChecker()(nil); err != nil {
		t.Error(err)
	}
	var all admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := mgr.GetAPIReader().List(t.Context(), &all); err != nil || len(all.Items) > 0 {
		t.Errorf("without the option there are %v, %v", all.Items, err)
	}
}

// post sends a review to the mux of the manager's server, without a socket.
func post(mgr manager.Manager, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	mgr.GetWebhookServer().WebhookMux().ServeHTTP(w, r)
	return w
}

const podReview = `{"request":{"uid":"u","operation":"CREATE","name":"p","object":{"apiVersion":"v1","kind":"Pod"}}}`

func TestWebhookPaths(t *testing.T) {
	mgr := webhookManager(t, plane(t), webhook.Options{})
	err := errors.Join(
		builder.WebhookManagedBy(mgr, &corev1.Pod{}).WithCustomDefaulter(anyRules{}).WithCustomValidator(anyRules{errors.New("no")}).Complete(),
		builder.WebhookManagedBy(mgr, &corev1.Pod{}).WithCustomDefaulter(anyRules{errors.New("second")}).Complete(), // is skipped
		builder.WebhookManagedBy(mgr, &corev1.Pod{}).WithCustomDefaulter(anyRules{errors.New("custom")}).WithDefaulterCustomPath("/a/b-c_1").
			WithCustomValidator(anyRules{errors.New("custom")}).WithValidatorCustomPath("/d").Complete(),
	)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/mutate--v1-pod": `"allowed":true`, "/validate--v1-pod": `"message":"no"`, "/a/b-c_1": `"message":"custom"`, "/d": `"message":"custom"`,
		"/convert": "404 page not found", "/mutate-v1-pod": "404 page not found",
	} {
		if got := post(mgr, path, podReview).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestWebhookOptions(t *testing.T) {
	handlers := utilruntime.PanicHandlers
	utilruntime.PanicHandlers = nil
	defer func() { utilruntime.PanicHandlers = handlers }()
	mgr := webhookManager(t, plane(t), webhook.Options{})
	type key struct{}
	var values []any
	err := builder.WebhookManagedBy(mgr, &corev1.Pod{}).
		WithDefaulter(panicking{}).
		RecoverPanic(true).
		WithContextFunc(func(ctx context.Context, r *http.Request) context.Context {
			return context.WithValue(ctx, key{}, r.URL.Path)
		}).
		WithLogConstructor(func(base logr.Logger, req *admission.Request) logr.Logger {
			if req != nil {
				values = append(values, req.Name)
			}
			return base
		}).
		Complete()
	if err != nil {
		t.Fatal(err)
	}
	if got := post(mgr, "/mutate--v1-pod", podReview).Body.String(); !strings.Contains(got, "panic: on purpose [recovered]") {
		t.Errorf("got %s", got)
	}
	if fmt.Sprint(values) != "[p]" {
		t.Errorf("loggers were made for %v", values)
	}
}

type panicking struct{}

func (panicking) Default(context.Context, *corev1.Pod) error { panic("on purpose") }

func TestWithConverter(t *testing.T) {
	mgr := webhookManager(t, plane(t), webhook.Options{})
	calls := 0
	converter := webhookconversion.NewHubSpokeConverter(&Widget{}, webhookconversion.NewSpokeConverter(&OldWidget{},
		func(_ context.Context, src *Widget, dst *OldWidget) error { calls++; return dst.ConvertFrom(src) },
		func(_ context.Context, src *OldWidget, dst *Widget) error { calls++; return src.ConvertTo(dst) }))
	build := func() error { return builder.WebhookManagedBy(mgr, &Widget{}).WithConverter(converter).Complete() }
	if err := build(); err != nil {
		t.Fatal(err)
	}
	w := post(mgr, "/convert", `{"request":{"uid":"u","desiredAPIVersion":"shop.example.org/v1","objects":[{"apiVersion":"shop.example.org/v1beta1","kind":"Widget","length":5}]}}`)
	if got := w.Body.String(); !strings.Contains(got, `"size":5`) || calls != 1 {
		t.Errorf("got %s after %d calls", got, calls)
	}
	if err := build(); err == nil || !strings.Contains(err.Error(), "converter already registered") {
		t.Errorf("the second time: %v", err)
	}
}

func TestWebhookBuilderErrors(t *testing.T) {
	mgr := webhookManager(t, plane(t), webhook.Options{})
	failing := func(*runtime.Scheme) (webhookconversion.Converter, error) { return nil, errors.New("no converter") }
	for want, err := range map[string]error{
		"must provide a non-nil Manager":                               builder.WebhookManagedBy(nil, &Widget{}).Complete(),
		"NewWebhookManagedBy() must be called with a valid object":     builder.WebhookManagedBy[*Widget](mgr, nil).Complete(),
		"no kind is registered for the type builder_test.Gadget":       builder.WebhookManagedBy(mgr, &Gadget{}).Complete(),
		"only one of Defaulter or CustomDefaulter can be set":          builder.WebhookManagedBy(mgr, &Widget{}).WithDefaulter(widgetRules{}).WithCustomDefaulter(anyRules{}).Complete(),
		"only one of Validator or CustomValidator can be set":          builder.WebhookManagedBy(mgr, &Widget{}).WithValidator(widgetRules{}).WithCustomValidator(anyRules{}).Complete(),
		`customPath "no slash" does not match this regex: ^((/[a-zA-Z`: builder.WebhookManagedBy(mgr, &Widget{}).WithValidator(widgetRules{}).WithValidatorCustomPath("no slash").Complete(),
		`customPath "/a//b" does not match this regex: ^((/[a-zA-Z0-`:  builder.WebhookManagedBy(mgr, &Widget{}).WithDefaulter(widgetRules{}).WithDefaulterCustomPath("/a//b").Complete(),
		"no converter": builder.WebhookManagedBy(mgr, &Widget{}).WithConverter(failing).Complete(),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}
