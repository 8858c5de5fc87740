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
