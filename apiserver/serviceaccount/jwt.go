package serviceaccount

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
)

// Tokens are signed by ECDSA with the curve P-256 and SHA-256 (ES256 of RFC 7518), and no other
// algorithm is accepted.
const (
	algorithm       = "ES256"
	coordinateBytes = 32
)

var (
	encoding     = base64.RawURLEncoding.Strict()
	errMalformed = errors.New("malformed token")
	errSignature = errors.New("invalid signature")
)

// key signs and verifies tokens.
type key struct {
	private *ecdsa.PrivateKey
	id      string
}

func newKey() (*key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(der)
	return &key{private, encoding.EncodeToString(digest[:])}, nil
}

// header is the header of a token.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid,omitempty"`
}

// sign returns the signed token with the claims, in compact serialization.
func (k *key) sign(claims any) (string, error) {
	head, err := json.Marshal(header{algorithm, k.id})
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := encoding.EncodeToString(head) + "." + encoding.EncodeToString(payload)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, k.private, digest[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 2*coordinateBytes)
	r.FillBytes(signature[:coordinateBytes])
	s.FillBytes(signature[coordinateBytes:])
	return signed + "." + encoding.EncodeToString(signature), nil
}

// parseUnverified decodes the header and the claims of a token without verifying them.
func parseUnverified(token string, claims any) (h header, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return h, errMalformed
	}
	for i, into := range []any{&h, claims} {
		text, err := encoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(text, into) != nil {
			return h, errMalformed // and not their errors, which may quote the token
		}
	}
	return h, nil
}

// verify verifies the signature of a token and decodes its claims. Errors quote nothing of it.
func (k *key) verify(token string, claims any) error {
	h, err := parseUnverified(token, claims)
	if err != nil {
		return err
	}
	end := strings.LastIndexByte(token, '.')
	signature, err := encoding.DecodeString(token[end+1:])
	if err != nil || len(signature) != 2*coordinateBytes || h.Algorithm != algorithm || h.KeyID != "" && h.KeyID != k.id {
		return errSignature
	}
	digest := sha256.Sum256([]byte(token[:end]))
	r := new(big.Int).SetBytes(signature[:coordinateBytes])
	s := new(big.Int).SetBytes(signature[coordinateBytes:])
	if !ecdsa.Verify(&k.private.PublicKey, digest[:], r, s) {
		return errSignature
	}
	return nil
}

// webKeys returns the public key as a JSON Web Key Set (RFC 7517).
func (k *key) webKeys() ([]byte, error) {
	point, err := k.private.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	type webKey struct {
		Use       string `json:"use"`
		Type      string `json:"kty"`
		ID        string `json:"kid"`
		Curve     string `json:"crv"`
		Algorithm string `json:"alg"`
		X         string `json:"x"`
		Y         string `json:"y"`
	}
	return json.Marshal(map[string][]webKey{"keys": {{
		Use: "sig", Type: "EC", ID: k.id, Curve: "P-256", Algorithm: algorithm,
		X: encoding.EncodeToString(point[1 : 1+coordinateBytes]), Y: encoding.EncodeToString(point[1+coordinateBytes:]),
	}}})
}
