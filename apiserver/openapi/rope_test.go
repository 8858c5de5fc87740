package openapi

import (
	"bytes"
	"io"
	"math/rand"
	"strings"
	"testing"
	"testing/iotest"

	"flyball.dev/internal/packed"
)

// TestRope reads a rope as a whole, in parts and from random places.
func TestRope(t *testing.T) {
	var w ropeWriter
	var want []byte
	for i := range 20 {
		text := strings.Repeat("x", i*i) + "y"
		if i == 10 {
			text = strings.Repeat("long", textSize) // more than one text
		}
		want = append(want, text...)
		if i%3 == 0 {
			w.writeText(packed.Pack([]byte(text)))
			w.writeText(packed.Pack(nil))
		} else {
			w.WriteString(text)
		}
	}
	r := w.finish()
	if !bytes.Equal(r.bytes(), want) || r.size() != int64(len(want)) {
		t.Errorf("%d bytes %q, want %d bytes %q", r.size(), r.bytes(), len(want), want)
	}
	if err := iotest.TestReader(&ropeReader{rope: r}, want); err != nil {
		t.Error(err)
	}
	reader, random := &ropeReader{rope: r}, rand.New(rand.NewSource(1))
	for range 100 {
		at, n := random.Intn(len(want)), random.Intn(100)
		n = min(n, len(want)-at)
		got := make([]byte, n)
		if _, err := reader.Seek(int64(at), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(reader, got); err != nil || !bytes.Equal(got, want[at:at+n]) {
			t.Fatalf("%q at %d, want %q: %v", got, at, want[at:at+n], err)
		}
	}
}
