package console

import (
	"strings"
	"testing"
)

// TestPlots: the plots are in the box of the picture, a line has a gap where nothing was reconciled, and the title has the extremes.
func TestPlots(t *testing.T) {
	history := make([]Point, 60)
	history[10] = Point{1, 0.001, 0.002}
	history[11] = Point{100, 0.01, 0.1}
	history[30] = Point{50, 0.005, 0.005}
	for name, c := range map[string]struct {
		history []Point
		want    []string
	}{
		"nothing": {nil, nil},
		"several": {history, []string{
			`<polyline class="rate" points="0,38 `, ` 44,2 48,2 48,38`,
			`<polyline class="p99" points="40,32.58 44,32.58 44,2 48,2"`, `<polyline class="p50" points="40,38 44,38 `,
			"In 5 minutes: up to 20 per second", "p50 from 1 ms, p99 up to 100 ms",
		}},
		"one duration": {[]Point{{1, 0.5, 0.5}}, []string{`class="p50" points="0,20 240,20"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := templates.ExecuteTemplate(&b, "plots", Controller{History: c.history}); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("no %q in\n%s", want, b.String())
				}
			}
			if lines := strings.Count(b.String(), "<polyline"); name == "several" && lines != 5 {
				t.Errorf("%d lines, want 5:\n%s", lines, b.String())
			}
			if len(c.want) == 0 && b.Len() > 0 {
				t.Errorf("want nothing, got %s", b.String())
			}
		})
	}
}
