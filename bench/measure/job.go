// Package measure runs jobs on several sides by turns and compares what they
// cost.
//
// A job is done by one side after the other, several rounds of it, and the side
// that begins changes from round to round: what disturbs the machine disturbs
// all sides alike. What counts is the ratio of two sides within a round, and the
// median of that over the rounds.
package measure

import "context"

// Job is something that several sides can do.
type Job struct {
	// Name is a path of words; the first one groups jobs in the report.
	Name string
	// About says in a sentence what is done and what feeds it.
	About string
	// Figures are what a side returns a value for.
	Figures []Figure
	// Setup, if there is one, prepares what all sides use. The function that it
	// returns, which may be nil, is called when the job is done.
	Setup func(context.Context) (teardown func(), err error)
	// Sides do the job. The first is compared with each of the others.
	Sides []Side
}

// Side is one way to do a job.
type Side struct {
	Name string
	// Run does the job once, cleans up after itself and returns what it measured.
	Run func(context.Context) (Sample, error)
}

// Sample holds the values of one run by the names of their figures.
type Sample map[string]float64

// Figure is one thing that a job measures. Less is better, unless it is a Rate.
type Figure struct {
	Name string
	Unit Unit
	// Reach is the ratio to the first peer that is to be reached at most, zero
	// if there is none.
	Reach float64
	// Most is the value that the first side is to have at most, zero if there is
	// none.
	Most float64
}

// Unit is what a value counts.
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
	// Tally is a number of things that depends on what comes first.
	Tally Unit = "tally"
)

// Judged tells whether a value depends on the program alone, or nearly so, and
// not on how busy the machine is.
func (u Unit) Judged() bool { return u == Count || u == Garbage }
