// Package heaptest measures the memory of code under test.
//
// The size of the heap of a process is no figure for a test: it has what other goroutines have allocated. A [Meter] counts
// the bytes of one test, with the profiler of allocations, which sees each of them and its stack. Benchmarks read the
// heap of the process with [Live].
package heaptest

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
)

// Live returns how many bytes of the heap of the process can be reached. It returns the least of five readings, because
// each has what other goroutines use for a moment.
func Live() int64 {
	least := int64(math.MaxInt64)
	for range 5 {
		collect()
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		least = min(least, int64(sample[0].Value.Uint64()))
	}
	return least
}

// collect collects garbage. The content of a sync.Pool survives one collection.
func collect() {
	runtime.GC()
	runtime.GC()
}

// Meter counts the memory that a test has allocated since the meter was made: all of it, and what can still be reached.
type Meter struct {
	allocators []string
	before     usage
}

// New returns a meter of what a test allocates: in the goroutines of its functions, and in other goroutines in functions
// with one of the prefixes, like "flyball.dev/storage/memory.". What these functions call counts too. A test
// with a meter must not run in parallel with others. Allocations are slow until the test ends.
func New(t testing.TB, prefixes ...string) *Meter {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1 // profile all allocations
	t.Cleanup(func() { runtime.MemProfileRate = rate })
	test, _, _ := strings.Cut(t.Name(), "/")
	m := &Meter{allocators: []string{"." + test + "+", "." + test + ".func"}}
	for _, prefix := range prefixes {
		m.allocators = append(m.allocators, "\t"+prefix)
	}
	m.before = m.read()
	return m
}

// Held collects garbage and returns how many bytes can be reached.
func (m *Meter) Held() int64 { return m.read().held - m.before.held }

// Allocated returns how many bytes were allocated.
func (m *Meter) Allocated() int64 { return m.read().allocated - m.before.allocated }

// usage is a number of bytes that can be reached, and of bytes that were ever allocated.
type usage struct{ held, allocated int64 }

// read collects garbage and returns what the profiler has seen.
func (m *Meter) read() (sum usage) {
	collect()
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 0 // of writing the profile, which allocates much
	defer func() { runtime.MemProfileRate = rate }()
	var profile bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&profile, 1); err != nil { // runtime.MemProfile would cut long stacks
		panic(err)
	}
	_, text, _ := strings.Cut(profile.String(), "\n")
	for record := range strings.SplitSeq(text, "\n\n") {
		numbers, stack, _ := strings.Cut(record, "\n")
		if !m.counts(stack) {
			continue
		}
		var objects, held, allocated int64
		if _, err := fmt.Sscanf(numbers, "%d: %d [%d: %d]", &objects, &held, &objects, &allocated); err != nil {
			panic(err)
		}
		sum.held += held
		sum.allocated += allocated
	}
	return sum
}

// counts reports whether the meter counts allocations with a stack.
func (m *Meter) counts(stack string) bool {
	return !strings.Contains(stack, "\tflyball.dev/internal/heaptest.") &&
		slices.ContainsFunc(m.allocators, func(name string) bool { return strings.Contains(stack, name) })
}
