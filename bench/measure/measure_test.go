package measure

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// scripted is a side that returns one value after the other and records its turns.
func scripted(name string, turns *[]string, values ...float64) Side {
	return Side{Name: name, Run: func(context.Context) (Sample, error) {
		*turns = append(*turns, name)
		value := values[0]
		values = values[1:]
		return Sample{"time": value}, nil
	}}
}

func atOnce(_ Turn, run func() error) error { return run() }

func TestRunAlternates(t *testing.T) {
	var turns []string
	torndown := false
	benchmark := Benchmark{
		Name: "group/benchmark", About: "what is done",
		Metrics: []Metric{{Name: "time", Unit: Time, Target: 0.5}},
		Setup:   func(context.Context) (func(), error) { return func() { torndown = true }, nil },
		Sides:   []Side{scripted("ours", &turns, 10, 30, 90), scripted("theirs", &turns, 100, 100, 100)},
	}
	r, err := Run(t.Context(), benchmark, 3, atOnce)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"ours", "theirs", "theirs", "ours", "ours", "theirs"}; !slices.Equal(turns, want) {
		t.Errorf("turns were %v, want %v", turns, want)
	}
	if !torndown {
		t.Error("the benchmark was not torn down")
	}
	m := r.Metrics[0]
	if !slices.Equal(m.Medians, []float64{30, 100}) || m.Ratios[0] != (Ratio{0.3, 0.1, 0.9}) || m.Missed {
		t.Errorf("got %+v", m)
	}
	var b strings.Builder
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	want := `
group/benchmark: what is done
        ours   theirs  ratio  range       target
  time  30 ns  100 ns  0.30   0.10..0.90  0.50  ok
`
	if b.String() != want {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
}

func TestMissed(t *testing.T) {
	for name, c := range map[string]struct {
		metric       Metric
		ours, theirs float64
		missed       bool
	}{
		"no target":          {Metric{}, 100, 1, false},
		"ratio":              {Metric{Target: 0.5}, 6, 10, true},
		"ratio, rounded":     {Metric{Target: 0.5}, 5.04, 10, false},
		"ratio to nothing":   {Metric{Target: 0.5}, 5, 0, false},
		"value":              {Metric{Limit: 1}, 1.1, 10, true},
		"value, just so":     {Metric{Limit: 1}, 1, 0.1, false},
		"one of both":        {Metric{Limit: 9, Target: 0.1}, 5, 10, true},
		"neither of the two": {Metric{Limit: 9, Target: 0.6}, 5, 10, false},
	} {
		c.metric.Name = "it"
		r := c.metric.summary([][]Sample{{{"it": c.ours}}, {{"it": c.theirs}}})
		if r.Missed != c.missed {
			t.Errorf("%s: missed is %t", name, r.Missed)
		}
	}
}

func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	side := func(s Sample, err error) []Side {
		return []Side{{Name: "ours", Run: func(context.Context) (Sample, error) { return s, err }}}
	}
	for name, benchmark := range map[string]Benchmark{
		"side":   {Sides: side(nil, broken)},
		"setup":  {Setup: func(context.Context) (func(), error) { return nil, broken }, Sides: side(nil, nil)},
		"sample": {Sides: side(Sample{"other": 1}, nil), Metrics: []Metric{{Name: "time"}}},
	} {
		if _, err := Run(t.Context(), benchmark, 1, atOnce); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []time.Duration{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := Quantile(values, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("the quantile of nothing is %v", got)
	}
}

func TestEach(t *testing.T) {
	cost, err := Each(100, func() error {
		for range 100 {
			sink = new([100]byte)
		}
		return nil
	})
	if err != nil || cost.Allocs < 1 || cost.Allocs > 1.5 || cost.Bytes < 100 {
		t.Errorf("got %+v, %v", cost, err)
	}
}

var sink any
