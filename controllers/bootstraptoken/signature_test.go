package bootstraptoken

import "testing"

// TestSignature has a signature of Kubernetes' test.
func TestSignature(t *testing.T) {
	const want = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
	const text = "Hello from the other side. I must have called a thousand times."
	if got := signature(text, "joshua", "my voice is my passcode"); got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}
