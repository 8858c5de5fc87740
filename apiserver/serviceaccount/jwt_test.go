package serviceaccount

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestForgedTokens: tokens that somebody else has made are refused, by errors that quote nothing of
// them.
func TestForgedTokens(t *testing.T) {
	tokens, err := New(nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	c := claims{Issuer: Issuer, Audience: []string{Issuer}, Subject: "system:serviceaccount:default:default"}
	valid, err := tokens.signer.sign(c)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.sign(c)
	if err != nil {
		t.Fatal(err)
	}
	other.id = tokens.signer.id
	sameID, err := other.sign(c)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(valid, ".")
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return encoding.EncodeToString(text)
	}
	none := part(header{Algorithm: "none"})
	hmacHead := part(header{Algorithm: "HS256", KeyID: tokens.signer.id})
	public, err := tokens.signer.public.(*ecdsa.PublicKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, public)
	mac.Write([]byte(hmacHead + "." + parts[1]))
	changed := c
	changed.Subject = "system:serviceaccount:kube-system:admin"
	if err := verify(tokens.verifiers, valid, &claims{}); err != nil {
		t.Fatalf("the valid token: %v", err)
	}
	for name, token := range map[string]string{
		"alg none":                     none + "." + parts[1] + ".",
		"alg none with the signature":  none + "." + parts[1] + "." + parts[2],
		"HMAC by the public key":       hmacHead + "." + parts[1] + "." + encoding.EncodeToString(mac.Sum(nil)),
		"no signature":                 parts[0] + "." + parts[1] + ".",
		"signature of zeros":           parts[0] + "." + parts[1] + "." + encoding.EncodeToString(make([]byte, 64)),
		"changed claims":               parts[0] + "." + part(changed) + "." + parts[2],
		"another server's":             foreign,
		"another key by the same name": sameID,
	} {
		response, ok, err := tokens.AuthenticateToken(context.Background(), token)
		if ok || response != nil || err == nil {
			t.Errorf("%s: accepted (%v)", name, err)
			continue
		}
		for _, part := range strings.Split(token, ".") {
			if part != "" && strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error quotes the token", name)
			}
		}
	}
	for _, token := range []string{"", "x", "a.b.c", parts[0] + "." + parts[1], valid + ".x", part(c)} {
		if _, ok, err := tokens.AuthenticateToken(context.Background(), token); ok || err != nil {
			t.Errorf("what is no token of ours: %v, %v", ok, err)
		}
	}
}

// TestKeys signs with each type of key, and verifies with its public key, and with no other.
func TestKeys(t *testing.T) {
	c := claims{Issuer: "https://issuer", Audience: []string{"a"}}
	keys := map[string]crypto.Signer{}
	for algorithm, curve := range map[string]elliptic.Curve{
		"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys[algorithm] = key
	}
	var err error
	if keys["RS256"], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	issued := map[string]string{}
	tokens := map[string]*Tokens{}
	for algorithm, key := range keys {
		o := Options{Issuers: []string{"https://issuer", "https://former"}, Audiences: []string{"a"}, SigningKey: key}
		if tokens[algorithm], err = New(nil, o); err != nil {
			t.Fatal(err)
		}
		if issued[algorithm], err = tokens[algorithm].signer.sign(c); err != nil {
			t.Fatal(err)
		}
	}
	for algorithm, with := range tokens {
		for other, token := range issued {
			if err := verify(with.verifiers, token, &claims{}); (err == nil) != (other == algorithm) {
				t.Errorf("a token of %s, verified with %s: %v", other, algorithm, err)
			}
		}
		if got := with.algorithms(); !slices.Equal(got, []string{algorithm}) {
			t.Errorf("the algorithms are %v", got)
		}
		var set struct{ Keys []map[string]string }
		text, err := webKeys(with.verifiers)
		if err != nil || json.Unmarshal(text, &set) != nil || len(set.Keys) != 1 || set.Keys[0]["alg"] != algorithm {
			t.Errorf("%s: the web keys are %s, %v", algorithm, text, err)
		}
	}
	both, err := New(nil, Options{SigningKey: keys["ES256"], Keys: []crypto.PublicKey{keys["RS256"].Public(), keys["ES256"].Public()}})
	if err != nil {
		t.Fatal(err)
	}
	for algorithm, token := range issued {
		if err := verify(both.verifiers, token, &claims{}); (err == nil) != (algorithm == "RS256" || algorithm == "ES256") {
			t.Errorf("%s, verified with two keys: %v", algorithm, err)
		}
	}
	if _, err := New(nil, Options{Keys: []crypto.PublicKey{"no key"}}); err == nil {
		t.Error("a key of an unknown type is accepted")
	}
}
