package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
)

// Result is what came of a job.
type Result struct {
	Job     string         `json:"job"`
	About   string         `json:"about"`
	Sides   []string       `json:"sides"`
	Figures []FigureResult `json:"figures"`
}

// FigureResult is what came of a figure. Its slices are in the order of the
// sides; Ratios leaves the first one out.
type FigureResult struct {
	Name    string      `json:"name"`
	Unit    Unit        `json:"unit"`
	Values  [][]float64 `json:"values"`
	Medians []float64   `json:"medians"`
	Ratios  []Ratio     `json:"ratios,omitempty"`
	Reach   float64     `json:"reach,omitempty"`
	Most    float64     `json:"most,omitempty"`
	// Missed is set if what was to be reached was not.
	Missed bool `json:"missed,omitempty"`
}

// Ratio is the first side's value by that of another side in the same round. It
// is zero if there is none because the other side's value is zero.
type Ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Turn is one side's run of a job, for those who want to look on.
type Turn struct {
	Job, Side string
	// Round counts from 1 to Rounds.
	Round, Rounds int
}

// Run does a job. Around is called with every turn and must call its function
// once, which does the work.
func Run(ctx context.Context, job Job, rounds int, around func(Turn, func() error) error) (Result, error) {
	if job.Setup != nil {
		teardown, err := job.Setup(ctx)
		if err != nil {
			return Result{}, fmt.Errorf("%s: preparing: %w", job.Name, err)
		}
		if teardown != nil {
			defer teardown()
		}
	}
	samples := make([][]Sample, len(job.Sides))
	for round := range rounds {
		for turn := range job.Sides {
			i := (round + turn) % len(job.Sides)
			side := job.Sides[i]
			runtime.GC() // of what the others left
			err := around(Turn{job.Name, side.Name, round + 1, rounds}, func() error {
				sample, err := side.Run(ctx)
				samples[i] = append(samples[i], sample)
				return errors.Join(err, job.check(sample))
			})
			if err != nil {
				return Result{}, fmt.Errorf("%s on %s: %w", job.Name, side.Name, err)
			}
		}
	}
	return summary(job, samples), nil
}

// check tells whether a sample has all the figures.
func (job Job) check(s Sample) error {
	for _, f := range job.Figures {
		if _, ok := s[f.Name]; !ok {
			return fmt.Errorf("%q was not measured", f.Name)
		}
	}
	return nil
}

func summary(job Job, samples [][]Sample) Result {
	r := Result{Job: job.Name, About: job.About}
	for _, side := range job.Sides {
		r.Sides = append(r.Sides, side.Name)
	}
	for _, f := range job.Figures {
		r.Figures = append(r.Figures, f.summary(samples))
	}
	return r
}

func (f Figure) summary(samples [][]Sample) FigureResult {
	r := FigureResult{Name: f.Name, Unit: f.Unit, Reach: f.Reach, Most: f.Most}
	for i, rounds := range samples {
		values := make([]float64, len(rounds))
		for round, sample := range rounds {
			values[round] = sample[f.Name]
		}
		r.Values = append(r.Values, values)
		r.Medians = append(r.Medians, median(values))
		if i > 0 {
			r.Ratios = append(r.Ratios, ratio(r.Values[0], values))
		}
	}
	r.Missed = f.Most > 0 && r.Medians[0] > f.Most ||
		f.Reach > 0 && len(r.Ratios) > 0 && rounded(r.Ratios[0].Median) > f.Reach
	return r
}

// rounded is a ratio as precisely as it is reported.
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
