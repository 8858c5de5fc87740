package serviceaccount

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"
)

// TestForgedTokens: tokens that somebody else has made are refused, by errors that quote nothing of
// them.
func TestForgedTokens(t *testing.T) {
	tokens, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	c := claims{Issuer: Issuer, Audience: []string{Issuer}, Subject: "system:serviceaccount:default:default"}
	valid, err := tokens.key.sign(c)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.sign(c)
	if err != nil {
		t.Fatal(err)
	}
	other.id = tokens.key.id
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
	hmacHead := part(header{Algorithm: "HS256", KeyID: tokens.key.id})
	public, err := tokens.key.private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, public)
	mac.Write([]byte(hmacHead + "." + parts[1]))
	changed := c
	changed.Subject = "system:serviceaccount:kube-system:admin"
	if err := tokens.key.verify(valid, &claims{}); err != nil {
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
