package measure

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Write writes the result of a benchmark as a table: the median of each side and, beside
// each peer, the ratio to it with its range over the rounds.
func Write(w io.Writer, r Result) error {
	fmt.Fprintf(w, "\n%s: %s\n", r.Benchmark, r.About)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, heading(r.Sides))
	for _, m := range r.Metrics {
		fmt.Fprintln(t, m.row())
	}
	return t.Flush()
}

// WriteSummary writes how many targets and limits were met, and which were not.
func WriteSummary(w io.Writer, results []Result) {
	targets, missed := 0, []string(nil)
	for _, r := range results {
		for _, m := range r.Metrics {
			if m.target() != "" {
				targets++
			}
			if m.Missed {
				missed = append(missed, r.Benchmark+" "+m.Name)
			}
		}
	}
	fmt.Fprintf(w, "\n%d of %d targets met\n", targets-len(missed), targets)
	for _, m := range missed {
		fmt.Fprintln(w, "  missed:", m)
	}
}

func heading(sides []string) string {
	cells := []string{"", sides[0]}
	for _, peer := range sides[1:] {
		cells = append(cells, peer, "ratio", "range")
	}
	return "  " + strings.Join(append(cells, "target"), "\t")
}

func (m MetricResult) row() string {
	cells := []string{m.Name, m.Unit.format(m.Medians[0])}
	for i, ratio := range m.Ratios {
		cells = append(cells, m.Unit.format(m.Medians[i+1]))
		if ratio == (Ratio{}) {
			cells = append(cells, "-", "")
			continue
		}
		cells = append(cells, fmt.Sprintf("%.2f", ratio.Median), fmt.Sprintf("%.2f..%.2f", ratio.Low, ratio.High))
	}
	return "  " + strings.Join(append(cells, m.target()), "\t")
}

// target returns the target and the limit, and whether they were met.
func (m MetricResult) target() string {
	var marks []string
	if m.Target > 0 && len(m.Ratios) > 0 {
		marks = append(marks, fmt.Sprintf("%.2f", m.Target))
	}
	if m.Limit > 0 {
		marks = append(marks, m.Unit.format(m.Limit))
	}
	switch {
	case len(marks) == 0:
		return ""
	case m.Missed:
		return strings.Join(marks, ", ") + "  MISSED"
	default:
		return strings.Join(marks, ", ") + "  ok"
	}
}

func (u Unit) format(v float64) string {
	switch u {
	case Time:
		return duration(v)
	case Rate:
		return fmt.Sprintf("%.0f/s", v)
	case Memory, Garbage:
		return bytes(v)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}

func duration(ns float64) string {
	switch d := time.Duration(ns); {
	case d < time.Microsecond:
		return fmt.Sprintf("%.0f ns", ns)
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", ns/1e6)
	default:
		return fmt.Sprintf("%.2f s", ns/1e9)
	}
}

func bytes(v float64) string {
	switch {
	case v < 10<<10:
		return fmt.Sprintf("%.0f B", v)
	case v < 10<<20:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	}
}
