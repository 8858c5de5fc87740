package console

import (
	"context"
	"fmt"
	"testing"

	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/observe"
)

// BenchmarkChain measures a page that looks for the origins of causes among as many reconciles as are recorded: with nine writes each,
// and without writes.
func BenchmarkChain(b *testing.B) {
	for _, writes := range []int{0, 9} {
		b.Run(fmt.Sprint("writes=", writes), func(b *testing.B) { benchmarkChain(b, writes) })
	}
}

func benchmarkChain(b *testing.B, writes int) {
	h := newHistory(0)
	w := h.worker("writer")
	var last *observe.Run
	for i, forgotten := 0, uint64(0); forgotten == 0; i++ {
		last = h.run(w, eventOf(cause.Updated, fmt.Sprint("shop-", i), "u", fmt.Sprint(i)), func(ctx context.Context) {
			for n := range writes {
				_ = h.client.Update(ctx, configMap(fmt.Sprint("shop-", i, "-", n), "u"))
			}
		})
		_, forgotten = h.recorder.Forgotten()
	}
	for b.Loop() {
		if _, ok := h.chain(last.ID); !ok {
			b.Fatal("the reconcile is not recorded")
		}
	}
	b.ReportMetric(float64(len(h.recorder.Runs())), "reconciles")
}
