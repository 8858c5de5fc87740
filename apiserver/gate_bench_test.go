package apiserver

import (
	"context"
	"testing"
)

// BenchmarkGate measures the cost of the gate for a request, on a server with and without an earlier reset.
func BenchmarkGate(b *testing.B) {
	for name, reset := range map[string]bool{"never reset": false, "reset": true} {
		b.Run(name, func(b *testing.B) {
			g := &gate{}
			if reset {
				if err := g.exclude(func() error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, leave, err := g.enter(context.Background())
					if err != nil {
						b.Error(err)
						return
					}
					leave()
				}
			})
		})
	}
}
