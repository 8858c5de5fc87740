package serviceaccount

import (
	"encoding/json"
	"net/http"
	"slices"
)

// The paths of OpenID Connect Discovery.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// ServeConfiguration serves the OpenID provider configuration of the issuer at [ConfigurationPath].
//
//upstream:pkg/routes.OpenIDMetadataServer
//upstream:pkg/serviceaccount.openidConfigProvider
func (t *Tokens) ServeConfiguration(w http.ResponseWriter, r *http.Request) {
	body, err := json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		KeysURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{t.issuers[0], "https://" + r.Host + KeysPath, []string{"id_token"}, []string{"public"}, t.algorithms()})
	serve(w, "application/json", body, err)
}

// algorithms returns the algorithms of the accepted tokens.
func (t *Tokens) algorithms() []string {
	var names []string
	for _, v := range t.verifiers {
		if !slices.Contains(names, v.algorithm) {
			names = append(names, v.algorithm)
		}
	}
	return names
}

// ServeKeys serves the public keys at [KeysPath].
//
//upstream:pkg/routes.OpenIDMetadataServer
//upstream:pkg/serviceaccount.openidConfigProvider
func (t *Tokens) ServeKeys(w http.ResponseWriter, _ *http.Request) {
	body, err := webKeys(t.verifiers)
	serve(w, "application/jwk-set+json", body, err)
}

// serve writes a document, which clients may cache for an hour.
func serve(w http.ResponseWriter, contentType string, body []byte, err error) {
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(body) // an error means that the client is gone
}
