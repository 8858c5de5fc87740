package observe

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// TestHistorySize: a history takes at most the 16 KiB of the documentation, and little before the first reconcile.
func TestHistorySize(t *testing.T) {
	empty := unsafe.Sizeof(history{})
	if full := empty + (historySteps+1)*unsafe.Sizeof(step{}); empty > 512 || full > 16<<10 {
		t.Errorf("a history has %d bytes, and %d when it is full", empty, full)
	}
}

// TestHistory: each point has the reconciles of its step and their percentiles within 20 %, and the rate is the one of the last minute.
func TestHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	h := &history{}
	start := time.Unix(1_000_000_000, 0)
	const steps = 200 // more than a history has
	took := make([][]time.Duration, steps)
	for i := range took {
		if i%7 == 3 {
			continue // nothing happens
		}
		for range 1 + random.IntN(300) {
			d := time.Duration(float64(20*time.Microsecond) * math.Exp(random.Float64()*12))
			took[i] = append(took[i], d)
			h.add(start.Add(time.Duration(i)*HistoryStep+time.Duration(random.Int64N(int64(HistoryStep)))), d)
		}
		slices.Sort(took[i])
	}
	now := start.Add((steps - 1) * HistoryStep) // the last step has begun
	points := h.points(now)
	if len(points) != historySteps {
		t.Fatalf("%d points", len(points))
	}
	for i, p := range points {
		want := took[steps-1-historySteps+i]
		if p.Reconciles != len(want) {
			t.Errorf("point %d has %d reconciles, want %d", i, p.Reconciles, len(want))
		}
		if len(want) == 0 {
			continue
		}
		for percent, got := range map[int]time.Duration{50: p.P50, 99: p.P99} {
			exact := want[len(want)*percent/100]
			if ratio := got.Seconds() / exact.Seconds(); ratio < 1/1.2 || ratio > 1.2 {
				t.Errorf("point %d: percentile %d is %v, want %v", i, percent, got, exact)
			}
		}
	}
	total := 0
	for _, d := range took[steps-1-rateSteps:] {
		total += len(d)
	}
	end := now.Add(HistoryStep - 1)
	if got, want := h.rate(end), float64(total)/65; math.Abs(got-want) > want/1e6 {
		t.Errorf("the rate is %v, want %v", got, want)
	}
	later := now.Add((historySteps + 2) * HistoryStep)
	if points := h.points(later); points != nil || h.rate(later) != 0 {
		t.Errorf("minutes later there are the points %v and the rate %v", points, h.rate(later))
	}
}
