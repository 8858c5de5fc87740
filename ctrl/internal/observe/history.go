package observe

import (
	"math"
	"time"
)

const (
	// HistoryStep is the time that a [Point] is about.
	HistoryStep = 5 * time.Second
	// historySteps is how many steps a history goes back, without the current one.
	historySteps = 60
	rateSteps    = 12 // a minute
)

// Point is what a controller did in a step.
type Point struct {
	Reconciles int
	P50, P99   time.Duration // within 20 %; zero if there was no reconcile
}

// history counts the reconciles of the last minutes by the time of their end and by their duration. It is a ring: an element
// that no step has used is nil.
type history [historySteps + 1]*step

// step has the reconciles that ended in one step.
type step struct {
	number int64 // of the step, since the epoch
	total  int
	counts [durations]uint32
}

// durations is the number of classes of durations. A class ends at the square root of two times the end of the one before.
const durations = 48

// shortest is where the first class ends.
const shortest = 10 * time.Microsecond

// classOf returns the class of a duration.
func classOf(d time.Duration) int {
	if d <= shortest {
		return 0
	}
	return min(int(math.Ceil(2*math.Log2(float64(d)/float64(shortest)))), durations-1)
}

// middleOf returns the geometric mean of the bounds of a class.
func middleOf(class int) time.Duration {
	return time.Duration(float64(shortest) * math.Exp2((float64(class)-0.5)/2))
}

// stepOf returns the number of the step of a time.
func stepOf(t time.Time) int64 { return t.UnixNano() / int64(HistoryStep) }

// add counts a reconcile.
func (h *history) add(ended time.Time, took time.Duration) {
	number := stepOf(ended)
	i := number % int64(len(h))
	if h[i] == nil {
		h[i] = &step{}
	}
	s := h[i]
	if s.number != number {
		*s = step{number: number}
	}
	s.total++
	s.counts[classOf(took)]++
}

// at returns a step, or nil if nothing ended in it.
func (h *history) at(number int64) *step {
	if s := h[number%int64(len(h))]; s != nil && s.number == number {
		return s
	}
	return nil
}

// points returns the steps before the current one, the oldest first, and nil if nothing ended in them.
func (h *history) points(now time.Time) []Point {
	points, total := make([]Point, historySteps), 0
	for i := range points {
		if s := h.at(stepOf(now) - historySteps + int64(i)); s != nil {
			points[i] = s.point()
			total += s.total
		}
	}
	if total == 0 {
		return nil
	}
	return points
}

// rate returns the reconciles per second of the last minute and the current step.
func (h *history) rate(now time.Time) float64 {
	current, total := stepOf(now), 0
	for number := current - rateSteps; number <= current; number++ {
		if s := h.at(number); s != nil {
			total += s.total
		}
	}
	return float64(total) / now.Sub(time.Unix(0, (current-rateSteps)*int64(HistoryStep))).Seconds()
}

func (s *step) point() Point {
	return Point{Reconciles: s.total, P50: s.percentile(50), P99: s.percentile(99)}
}

// percentile returns the duration that so many percent of the reconciles do not exceed.
func (s *step) percentile(percent int) time.Duration {
	rank := s.total * percent / 100
	for class, n := range s.counts {
		if rank -= int(n); rank < 0 {
			return middleOf(class)
		}
	}
	return middleOf(durations - 1)
}
