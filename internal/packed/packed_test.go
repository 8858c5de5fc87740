package packed_test

import (
	"strings"
	"sync"
	"testing"

	"flyball.dev/internal/packed"
)

func TestPack(t *testing.T) {
	var work sync.WaitGroup
	for _, text := range []string{"", "a", strings.Repeat(`{"type":"string"}`, 10_000)} {
		work.Go(func() {
			p := packed.Pack([]byte(text))
			if got := string(p.Unpack()); got != text || p.Size() != len(text) || p != packed.Pack([]byte(text)) {
				t.Errorf("packed %d bytes as %q, size %d", len(text), p, p.Size())
			}
			if len(text) > 100 && len(p) > len(text)/50 {
				t.Errorf("%d bytes take %d", len(text), len(p))
			}
		})
	}
	work.Wait()
}
