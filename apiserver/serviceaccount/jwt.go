package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // the hash of ES384 and ES512
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

var (
	encoding     = base64.RawURLEncoding.Strict()
	errMalformed = errors.New("malformed token")
	errSignature = errors.New("invalid signature")
)

// newKey returns a new key for ES256.
func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// verifier verifies the signatures of one key, with the one algorithm of the key (RFC 7518).
type verifier struct {
	public    crypto.PublicKey // *rsa.PublicKey or *ecdsa.PublicKey
	algorithm string
	hash      crypto.Hash
	id        string
}

// newVerifier returns the verifier of a public key. It fails for a key of an unsupported type.
func newVerifier(public crypto.PublicKey) (*verifier, error) {
	v := &verifier{public: public}
	switch key := public.(type) {
	case *rsa.PublicKey:
		v.algorithm, v.hash = "RS256", crypto.SHA256
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			v.algorithm, v.hash = "ES256", crypto.SHA256
		case elliptic.P384():
			v.algorithm, v.hash = "ES384", crypto.SHA384
		case elliptic.P521():
			v.algorithm, v.hash = "ES512", crypto.SHA512
		default:
			return nil, errors.New("unknown private key curve, must be 256, 384, or 521")
		}
	default:
		return nil, fmt.Errorf("unknown public key type %T, must be *rsa.PublicKey or *ecdsa.PublicKey", public)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(der)
	v.id = encoding.EncodeToString(digest[:])
	return v, nil
}

// digest returns the hash of the signed text.
func (v *verifier) digest(signed string) []byte {
	h := v.hash.New()
	h.Write([]byte(signed))
	return h.Sum(nil)
}

// valid reports whether a signature is valid for the signed text.
func (v *verifier) valid(signed string, signature []byte) bool {
	digest := v.digest(signed)
	switch key := v.public.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, v.hash, digest, signature) == nil
	case *ecdsa.PublicKey:
		n := coordinateBytes(key)
		if len(signature) != 2*n {
			return false
		}
		return ecdsa.Verify(key, digest, new(big.Int).SetBytes(signature[:n]), new(big.Int).SetBytes(signature[n:]))
	}
	return false
}

// coordinateBytes is the length of each half of a signature, and of each coordinate of a point.
func coordinateBytes(key *ecdsa.PublicKey) int { return (key.Curve.Params().BitSize + 7) / 8 }

// signer signs tokens.
type signer struct {
	private crypto.Signer
	*verifier
}

//upstream:pkg/serviceaccount.signerFromRSAPrivateKey
//upstream:pkg/serviceaccount.signerFromECDSAPrivateKey
func newSigner(private crypto.Signer) (*signer, error) {
	v, err := newVerifier(private.Public())
	return &signer{private, v}, err
}

// header is the header of a token.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid,omitempty"`
}

// sign returns the signed token with the claims, in compact serialization.
func (s *signer) sign(claims any) (string, error) {
	head, err := json.Marshal(header{s.algorithm, s.id})
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := encoding.EncodeToString(head) + "." + encoding.EncodeToString(payload)
	signature, err := s.signature(signed)
	if err != nil {
		return "", err
	}
	return signed + "." + encoding.EncodeToString(signature), nil
}

// signature signs a text. ECDSA signatures are two fixed-length integers, not ASN.1 (RFC 7518).
func (s *signer) signature(signed string) ([]byte, error) {
	digest := s.digest(signed)
	private, ok := s.private.(*ecdsa.PrivateKey)
	if !ok {
		return s.private.Sign(rand.Reader, digest, s.hash)
	}
	x, y, err := ecdsa.Sign(rand.Reader, private, digest)
	if err != nil {
		return nil, err
	}
	n := coordinateBytes(&private.PublicKey)
	signature := make([]byte, 2*n)
	x.FillBytes(signature[:n])
	y.FillBytes(signature[n:])
	return signature, nil
}

// parseUnverified decodes the header and the claims of a token without verifying them.
//
//upstream:pkg/serviceaccount.jwtTokenAuthenticator.hasCorrectIssuer
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

// verify verifies that one of the keys signed a token, and decodes its claims. Errors do not quote the token.
func verify(keys []*verifier, token string, claims any) error {
	h, err := parseUnverified(token, claims)
	if err != nil {
		return err
	}
	end := strings.LastIndexByte(token, '.')
	signature, err := encoding.DecodeString(token[end+1:])
	if err != nil {
		return errSignature
	}
	for _, v := range keys {
		if h.Algorithm == v.algorithm && (h.KeyID == "" || h.KeyID == v.id) && v.valid(token[:end], signature) {
			return nil
		}
	}
	return errSignature
}

// webKey is a public key in a JSON Web Key Set (RFC 7517).
type webKey struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Curve     string `json:"crv,omitempty"`
	Algorithm string `json:"alg"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	N         string `json:"n,omitempty"`
	E         string `json:"e,omitempty"`
}

// webKeys returns public keys as a JSON Web Key Set.
func webKeys(keys []*verifier) ([]byte, error) {
	set := []webKey{}
	for _, v := range keys {
		k := webKey{Use: "sig", ID: v.id, Algorithm: v.algorithm}
		switch key := v.public.(type) {
		case *rsa.PublicKey:
			k.Type = "RSA"
			k.N = encoding.EncodeToString(key.N.Bytes())
			k.E = encoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())
		case *ecdsa.PublicKey:
			point, err := key.Bytes()
			if err != nil {
				return nil, err
			}
			n := coordinateBytes(key)
			k.Type, k.Curve = "EC", key.Curve.Params().Name
			k.X, k.Y = encoding.EncodeToString(point[1:1+n]), encoding.EncodeToString(point[1+n:])
		}
		set = append(set, k)
	}
	return json.Marshal(map[string][]webKey{"keys": set})
}
