package measure

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Write writes what came of a job as a table: the median of each side and, beside
// each peer, the ratio to it with its range over the rounds.
func Write(w io.Writer, r Result) error {
	fmt.Fprintf(w, "\n%s: %s\n", r.Job, r.About)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, heading(r.Sides))
	for _, f := range r.Figures {
		fmt.Fprintln(t, f.row())
	}
	return t.Flush()
}

// WriteVerdict writes which of the figures that were to be reached were not.
func WriteVerdict(w io.Writer, results []Result) {
	reaches, missed := 0, []string(nil)
	for _, r := range results {
		for _, f := range r.Figures {
			if f.reach() != "" {
				reaches++
			}
			if f.Missed {
				missed = append(missed, r.Job+" "+f.Name)
			}
		}
	}
	fmt.Fprintf(w, "\nreached %d of %d\n", reaches-len(missed), reaches)
	for _, m := range missed {
		fmt.Fprintln(w, "  missed:", m)
	}
}

func heading(sides []string) string {
	cells := []string{"", sides[0]}
	for _, peer := range sides[1:] {
		cells = append(cells, peer, "ratio", "range")
	}
	return "  " + strings.Join(append(cells, "reach"), "\t")
}

func (f FigureResult) row() string {
	cells := []string{f.Name, f.Unit.format(f.Medians[0])}
	for i, ratio := range f.Ratios {
		cells = append(cells, f.Unit.format(f.Medians[i+1]))
		if ratio == (Ratio{}) {
			cells = append(cells, "-", "")
			continue
		}
		cells = append(cells, fmt.Sprintf("%.2f", ratio.Median), fmt.Sprintf("%.2f..%.2f", ratio.Low, ratio.High))
	}
	return "  " + strings.Join(append(cells, f.reach()), "\t")
}

// reach says what was to be reached and whether it was.
func (f FigureResult) reach() string {
	var marks []string
	if f.Reach > 0 && len(f.Ratios) > 0 {
		marks = append(marks, fmt.Sprintf("%.2f", f.Reach))
	}
	if f.Most > 0 {
		marks = append(marks, f.Unit.format(f.Most))
	}
	switch {
	case len(marks) == 0:
		return ""
	case f.Missed:
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
