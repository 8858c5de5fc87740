package console

import (
	"fmt"
	"slices"
	"testing"
	"time"
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
