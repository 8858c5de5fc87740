package console

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/observe"
)

// BenchmarkCost measures recording that nobody looks at: the ratio of the times with recording and without it, in one manager,
// because two managers differ by more. An iteration is a pair of segments, in alternating order. In a segment, 100 ConfigMaps
// change, and two controllers run for each ConfigMap: they read five objects and write three.
func BenchmarkCost(b *testing.B) {
	const shops = 100
	s := open(b, shopOptions{workers: 2})
	for i := range shops {
		s.make(b, fmt.Sprint("shop-", i), "first")
	}
	s.idle(b)
	n := 0
	segment := func(on bool) time.Duration {
		s.console.recorder.SetRecording(on)
		start := time.Now()
		for i := range shops {
			n++
			s.patch(b, fmt.Sprint("shop-", i), "motto", fmt.Sprint("m", n))
		}
		s.idle(b)
		return time.Since(start)
	}
	segment(false)
	segment(true)
	var ratios []float64
	for pair := range b.N {
		first := segment(pair%2 == 0)
		second := segment(pair%2 != 0)
		if pair%2 != 0 {
			first, second = second, first
		}
		ratios = append(ratios, first.Seconds()/second.Seconds())
	}
	slices.Sort(ratios)
	for name, at := range map[string]int{"quarter": 1, "median": 2, "three-quarters": 3} {
		b.ReportMetric(ratios[(len(ratios)-1)*at/4], name+"-on/off")
	}
	b.ReportMetric(float64(s.console.recorder.Size()), "record-bytes")
}

// BenchmarkChain measures a page that looks for the origins of causes among 10,000 reconciles with nine writes each.
func BenchmarkChain(b *testing.B) {
	h := newHistory(0)
	w := h.worker("writer")
	var last *observe.Run
	for i := range 10_000 {
		last = h.run(w, eventOf(cause.Updated, fmt.Sprint("shop-", i), "u", fmt.Sprint(i)), func(ctx context.Context) {
			for n := range 9 {
				_ = h.client.Update(ctx, configMap(fmt.Sprint("shop-", i, "-", n), "u"))
			}
		})
	}
	for b.Loop() {
		if _, ok := h.chain(last.ID); !ok {
			b.Fatal("the reconcile is not recorded")
		}
	}
	b.ReportMetric(float64(len(h.recorder.Runs())), "reconciles")
}
