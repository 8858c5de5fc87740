package measure

import (
	"runtime"
	"slices"
	"time"
)

// Cost is what one of many operations took, on average and by all goroutines of
// the process together.
type Cost struct {
	Time time.Duration
	// CPU is the time of processors, including the garbage collector's. A
	// busy machine changes it much less than Time. It is zero on systems
	// that do not report it.
	CPU    time.Duration
	Allocs float64
	Bytes  float64
}

// Each measures f, which does n operations.
func Each(n int, f func() error) (Cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, worked := time.Now(), cpu()
	err := f()
	took, spent := time.Since(began), cpu()-worked
	runtime.ReadMemStats(&after)
	return Cost{
		Time:   took / time.Duration(n),
		CPU:    spent / time.Duration(n),
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
	}, err
}

// Repeat measures f, over and over for about the time given. It takes a tenth of the time to find
// out how often that is. What f does only the first time is not measured, nor is the garbage of what
// was done before.
func Repeat(budget time.Duration, f func() error) (Cost, error) {
	if err := f(); err != nil {
		return Cost{}, err
	}
	runtime.GC()
	// The fastest counts: a try that the scheduler interrupts must not leave so few repetitions that
	// what other goroutines allocate meanwhile is taken for a cost of f.
	fastest := budget
	for began := time.Now(); time.Since(began) < budget/10; {
		start := time.Now()
		if err := f(); err != nil {
			return Cost{}, err
		}
		fastest = min(fastest, time.Since(start))
	}
	n := max(3, int(budget/max(fastest, 1)))
	return Each(n, func() error {
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Heap returns the bytes of the objects in the heap that are in use.
func Heap() float64 {
	// The content of a sync.Pool outlives one collection.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// Quantile returns the value below which the share q of the values are. It sorts
// them.
func Quantile(values []time.Duration, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return float64(values[int(q*float64(len(values)-1)+0.5)])
}
