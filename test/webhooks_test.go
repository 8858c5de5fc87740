package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// webhooks NAME starts the webhooks of the kind Loaf in this process. It sets the variables WEBHOOK_PORT, for flyball up
// --forward, and CA_BUNDLE, with the certificate for the DNS name of the Service.
func webhooks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: webhooks name")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: args, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ts.Check(err)
	mux := http.NewServeMux()
	mux.HandleFunc("/mutate", answer(mutateLoaf))
	mux.HandleFunc("/validate", answer(validateLoaf))
	mux.HandleFunc("/convert", answer(convertLoaves))
	server := httptest.NewUnstartedServer(mux)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	ts.Defer(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	ts.Check(err)
	ts.Setenv("WEBHOOK_PORT", port)
	ts.Setenv("CA_BUNDLE", base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})))
}

// review is an AdmissionReview or a ConversionReview.
type review struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Request    *request       `json:"request,omitempty"`
	Response   map[string]any `json:"response,omitempty"`
}

type request struct {
	UID               string   `json:"uid"`
	Object            object   `json:"object"`
	Objects           []object `json:"objects"`
	DesiredAPIVersion string   `json:"desiredAPIVersion"`
}

type object = map[string]any

// answer returns the handler of reviews.
func answer(with func(*request) map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body review
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		body.Response = with(body.Request)
		body.Response["uid"] = body.Request.UID
		body.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body) // the client may have gone
	}
}

// mutateLoaf sets the flour of a Loaf.
func mutateLoaf(r *request) map[string]any {
	response := map[string]any{"allowed": true}
	if spec, ok := r.Object["spec"].(object); ok && spec["flour"] == nil {
		response["patch"] = []byte(`[{"op":"add","path":"/spec/flour","value":"wheat"}]`)
		response["patchType"] = "JSONPatch"
	}
	return response
}

// validateLoaf refuses a flour, and warns of another.
func validateLoaf(r *request) map[string]any {
	spec, _ := r.Object["spec"].(object)
	switch spec["flour"] {
	case "sawdust":
		return map[string]any{"allowed": false, "status": map[string]any{"message": "nobody eats sawdust", "code": 403}}
	case "rye":
		return map[string]any{"allowed": true, "warnings": []string{"rye takes longer"}}
	}
	return map[string]any{"allowed": true}
}

// convertLoaves converts Loaves. The field spec.grams of v1 is spec.weight of v1alpha1.
func convertLoaves(r *request) map[string]any {
	from, to := "weight", "grams"
	if r.DesiredAPIVersion == "bakery.example.com/v1alpha1" {
		from, to = to, from
	}
	for _, o := range r.Objects {
		o["apiVersion"] = r.DesiredAPIVersion
		if spec, ok := o["spec"].(object); ok && spec[from] != nil {
			spec[to] = spec[from]
			delete(spec, from)
		}
	}
	return map[string]any{"convertedObjects": r.Objects, "result": map[string]any{"status": "Success"}}
}
