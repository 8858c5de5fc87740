// Package measure runs benchmarks on several sides in turn and compares their costs.
//
// A benchmark runs on one side after the other, for several rounds, and the side that begins
// changes from round to round, so that disturbances of the machine affect all sides alike. The
// result is the median over the rounds of the ratio of two sides within a round.
package measure

import "context"

// Benchmark is a workload that several sides can run.
type Benchmark struct {
	// Name is a path of words; the first one groups benchmarks in the report.
	Name string
	// About is a sentence on the work and where the objects come from.
	About string
	// Metrics are the names and units of the values that a side returns.
	Metrics []Metric
	// Setup, if there is one, prepares what all sides use. The function that it
	// returns, which may be nil, is called when the benchmark is done.
	Setup func(context.Context) (teardown func(), err error)
	// Sides run the benchmark. The first is compared with each of the others.
	Sides []Side
}

// Side is one implementation of a benchmark.
type Side struct {
	Name string
	// Run runs the benchmark once, cleans up after itself and returns what it measured.
	Run func(context.Context) (Sample, error)
}

// Sample holds the values of one run by the names of their metrics.
type Sample map[string]float64

// Metric is one thing that a benchmark measures. Less is better, unless it is a Rate.
type Metric struct {
	Name string
	Unit Unit
	// Target is the largest ratio to the first peer that is acceptable. Zero is no target.
	Target float64
	// Limit is the largest value of the first side that is acceptable. Zero is no limit.
	Limit float64
}

// Unit is the unit of a value.
type Unit string

const (
	// Time is in nanoseconds. It depends on the machine and on what else it does.
	Time Unit = "time"
	// Rate is in pieces a second. More is better.
	Rate Unit = "rate"
	// Memory is in bytes that were held. It depends on the garbage collector in
	// small ways.
	Memory Unit = "memory"
	// Garbage is in bytes that were allocated.
	Garbage Unit = "garbage"
	// Count is a number of things, such as allocations.
	Count Unit = "count"
	// Variable is a number of things that depends on the scheduling of goroutines.
	Variable Unit = "variable"
)

// Deterministic reports whether a value depends, nearly, on the program alone and not on the load
// of the machine.
func (u Unit) Deterministic() bool { return u == Count || u == Garbage }
