package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
)

// Result is the result of a benchmark.
type Result struct {
	Benchmark string         `json:"benchmark"`
	About     string         `json:"about"`
	Sides     []string       `json:"sides"`
	Metrics   []MetricResult `json:"metrics"`
}

// MetricResult is the result of a metric. Its slices are in the order of the
// sides; Ratios leaves the first one out.
type MetricResult struct {
	Name    string      `json:"name"`
	Unit    Unit        `json:"unit"`
	Values  [][]float64 `json:"values"`
	Medians []float64   `json:"medians"`
	Ratios  []Ratio     `json:"ratios,omitempty"`
	Target  float64     `json:"target,omitempty"`
	Limit   float64     `json:"limit,omitempty"`
	// Missed is set if the target or the limit was not met.
	Missed bool `json:"missed,omitempty"`
}

// Ratio is the first side's value by another side's value in the same round. It
// is zero if there is none because the other side's value is zero.
type Ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Turn identifies one run of a benchmark on one side.
type Turn struct {
	Benchmark, Side string
	// Round counts from 1 to Rounds.
	Round, Rounds int
}

// Run runs a benchmark. around is called with every turn and must call its function, which does the
// work, once.
func Run(ctx context.Context, benchmark Benchmark, rounds int, around func(Turn, func() error) error) (Result, error) {
	if benchmark.Setup != nil {
		teardown, err := benchmark.Setup(ctx)
		if err != nil {
			return Result{}, fmt.Errorf("%s: preparing: %w", benchmark.Name, err)
		}
		if teardown != nil {
			defer teardown()
		}
	}
	samples := make([][]Sample, len(benchmark.Sides))
	for round := range rounds {
		for turn := range benchmark.Sides {
			i := (round + turn) % len(benchmark.Sides)
			side := benchmark.Sides[i]
			runtime.GC() // of what the others left
			err := around(Turn{benchmark.Name, side.Name, round + 1, rounds}, func() error {
				sample, err := side.Run(ctx)
				samples[i] = append(samples[i], sample)
				return errors.Join(err, benchmark.check(sample))
			})
			if err != nil {
				return Result{}, fmt.Errorf("%s on %s: %w", benchmark.Name, side.Name, err)
			}
		}
	}
	return summary(benchmark, samples), nil
}

// check fails if a sample lacks a metric.
func (benchmark Benchmark) check(s Sample) error {
	for _, m := range benchmark.Metrics {
		if _, ok := s[m.Name]; !ok {
			return fmt.Errorf("%q was not measured", m.Name)
		}
	}
	return nil
}

func summary(benchmark Benchmark, samples [][]Sample) Result {
	r := Result{Benchmark: benchmark.Name, About: benchmark.About}
	for _, side := range benchmark.Sides {
		r.Sides = append(r.Sides, side.Name)
	}
	for _, m := range benchmark.Metrics {
		r.Metrics = append(r.Metrics, m.summary(samples))
	}
	return r
}

func (m Metric) summary(samples [][]Sample) MetricResult {
	r := MetricResult{Name: m.Name, Unit: m.Unit, Target: m.Target, Limit: m.Limit}
	for i, rounds := range samples {
		values := make([]float64, len(rounds))
		for round, sample := range rounds {
			values[round] = sample[m.Name]
		}
		r.Values = append(r.Values, values)
		r.Medians = append(r.Medians, median(values))
		if i > 0 {
			r.Ratios = append(r.Ratios, ratio(r.Values[0], values))
		}
	}
	r.Missed = m.Limit > 0 && r.Medians[0] > m.Limit ||
		m.Target > 0 && len(r.Ratios) > 0 && rounded(r.Ratios[0].Median) > m.Target
	return r
}

// rounded is a ratio with the precision of the report.
func rounded(ratio float64) float64 { return math.Round(ratio*100) / 100 }

func ratio(values, peer []float64) Ratio {
	ratios := make([]float64, 0, len(values))
	for i := range values {
		if peer[i] != 0 {
			ratios = append(ratios, values[i]/peer[i])
		}
	}
	if len(ratios) == 0 {
		return Ratio{}
	}
	return Ratio{median(ratios), slices.Min(ratios), slices.Max(ratios)}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
