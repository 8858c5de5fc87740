package crd_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestWebhookConversion has two versions between which one field has another name.
func TestWebhookConversion(t *testing.T) {
	var down atomic.Bool
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		var review v1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &v1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			u := &unstructured.Unstructured{}
			if err := json.Unmarshal(raw.Raw, u); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			u.SetAPIVersion(review.Request.DesiredAPIVersion)
			if spec, ok := u.Object["spec"].(map[string]any); ok {
				from, to := "size", "amount"
				if spec["amount"] != nil {
					from, to = to, from
				}
				spec[to] = spec[from]
				delete(spec, from)
			}
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: u})
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer webhook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})

	s := newServer(t)
	body := strings.Replace(minimal, "  versions:", `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "`+webhook.URL+`", caBundle: `+base64.StdEncoding.EncodeToString(ca)+`}}
  versions:
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {amount: {type: integer}}}}}}`, 1)
	s.define(body)
	v2 := strings.Replace(widgetsPath, "v1", "v2", 1)
	a := s.want(201, "POST", v2, "{apiVersion: example.com/v2, kind: Widget, metadata: {name: a}, spec: {amount: 3}}")
	if !cmp.Equal(a.object["spec"], map[string]any{"amount": float64(3)}) {
		t.Errorf("created: %s", a.body)
	}
	if got := s.want(200, "GET", widgetsPath+"/a", "").object["spec"]; !cmp.Equal(got, map[string]any{"size": float64(3)}) {
		t.Errorf("in v1: %v", got)
	}
	s.want(200, "PATCH", widgetsPath+"/a", `{"spec":{"size":4}}`, mergePatch...)
	if got := s.want(200, "GET", v2, "").object["items"].([]any)[0].(map[string]any)["spec"]; !cmp.Equal(got, map[string]any{"amount": float64(4)}) {
		t.Errorf("in v2: %v", got)
	}
	down.Store(true)
	s.refused(500, []string{"conversion webhook for example.com/v2, Kind=Widget failed"}, "POST", v2, "{apiVersion: example.com/v2, kind: Widget, metadata: {name: b}, spec: {amount: 3}}")
	s.want(404, "GET", widgetsPath+"/b", "")
}

// TestLyingConversionWebhook tests a webhook with many kinds of wrong answers. Requests in the stored version still
// succeed, all others fail, and nothing is written.
func TestLyingConversionWebhook(t *testing.T) {
	var lie atomic.Pointer[func(http.ResponseWriter, *v1.ConversionReview)]
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review v1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &v1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			u := &unstructured.Unstructured{}
			if err := json.Unmarshal(raw.Raw, u); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			u.SetAPIVersion(review.Request.DesiredAPIVersion)
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: u})
		}
		if f := lie.Load(); f != nil {
			(*f)(w, &review)
		}
		if review.Kind != "" {
			_ = json.NewEncoder(w).Encode(review)
		}
	}))
	defer webhook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})
	s := newServer(t)
	s.define(strings.Replace(minimal, "  versions:", `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "`+webhook.URL+`", caBundle: `+base64.StdEncoding.EncodeToString(ca)+`}}
  versions:
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`, 1))
	v2 := strings.Replace(widgetsPath, "v1", "v2", 1)
	s.want(201, "POST", widgetsPath, widget("a"))
	first := func(r *v1.ConversionReview) *unstructured.Unstructured {
		return r.Response.ConvertedObjects[0].Object.(*unstructured.Unstructured)
	}
	for name, c := range map[string]struct {
		answer  func(http.ResponseWriter, *v1.ConversionReview)
		message string
	}{
		"failure": {func(_ http.ResponseWriter, r *v1.ConversionReview) {
			r.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: "cannot be converted"}
		}, "cannot be converted"},
		"failure without a message": {func(_ http.ResponseWriter, r *v1.ConversionReview) {
			r.Response.Result = metav1.Status{Status: metav1.StatusFailure}
		}, "failed"},
		"no response":     {func(_ http.ResponseWriter, r *v1.ConversionReview) { r.Response = nil }, "no response"},
		"another UID":     {func(_ http.ResponseWriter, r *v1.ConversionReview) { r.Response.UID = "x" }, "uid"},
		"too few":         {func(_ http.ResponseWriter, r *v1.ConversionReview) { r.Response.ConvertedObjects = nil }, "returned 0 objects"},
		"another kind":    {func(_ http.ResponseWriter, r *v1.ConversionReview) { first(r).SetKind("Gadget") }, "invalid kind"},
		"another version": {func(_ http.ResponseWriter, r *v1.ConversionReview) { first(r).SetAPIVersion("example.com/v3") }, "invalid groupVersion"},
		"another name":    {func(_ http.ResponseWriter, r *v1.ConversionReview) { first(r).SetName("other") }, "name"},
		"another namespace": {func(_ http.ResponseWriter, r *v1.ConversionReview) {
			first(r).SetNamespace("other")
		}, "namespace"},
		"no metadata": {func(_ http.ResponseWriter, r *v1.ConversionReview) {
			delete(first(r).Object, "metadata")
		}, "must have the same name"},
		"not JSON": {func(w http.ResponseWriter, r *v1.ConversionReview) {
			r.Kind = ""
			_, _ = w.Write([]byte("converted"))
		}, "conversion webhook"},
		"an error status": {func(w http.ResponseWriter, r *v1.ConversionReview) {
			r.Kind = ""
			http.Error(w, "teapot", http.StatusTeapot)
		}, "conversion webhook"},
		"a crash": {func(http.ResponseWriter, *v1.ConversionReview) { panic(http.ErrAbortHandler) }, "conversion webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			lie.Store(&c.answer)
			s.refused(500, []string{c.message}, "GET", v2+"/a", "")
			s.refused(500, []string{c.message}, "GET", v2, "")
			s.refused(500, []string{c.message}, "DELETE", v2+"/a", "")
			s.refused(500, []string{c.message}, "PATCH", v2+"/a", `{"spec":{"size":2}}`, mergePatch...)
			s.refused(500, []string{c.message}, "POST", v2, strings.Replace(widget("b"), "v1", "v2", 1))
			s.want(200, "GET", widgetsPath+"/a", "")
			s.want(404, "GET", widgetsPath+"/b", "")
			s.want(200, "PATCH", widgetsPath+"/a", `{"metadata":{"labels":{"lie":"`+strings.ReplaceAll(name, " ", "-")+`"}}}`, mergePatch...)
		})
	}
	s.t = t
	lie.Store(nil)
	s.want(200, "GET", v2+"/a", "")
	s.want(201, "POST", v2, strings.Replace(widget("b"), "v1", "v2", 1))
}
