package console

import (
	"fmt"
	"math"
	"strings"

	"flyball.dev/ctrl/internal/observe"
)

// plot is a small plot of the last minutes. It has a title, and each line the points of an SVG polyline, in a box of plotWidth by plotHeight.
type plot struct {
	Title string
	Lines []plotLine
}

// plotLine is a line of a plot: its class in the stylesheet, and the points of a polyline.
type plotLine struct{ Class, Points string }

const (
	plotWidth  = 240
	plotHeight = 40
)

// Plots returns the rate and the durations of a controller, or nothing if it has not reconciled in the last minutes.
func (c Controller) Plots() []plot {
	if len(c.History) == 0 {
		return nil
	}
	return []plot{ratePlot(c.History), durationPlot(c.History)}
}

// ratePlot is the plot of the reconciles per second, from zero to the most.
func ratePlot(history []Point) plot {
	most := 1
	for _, p := range history {
		most = max(most, p.Reconciles)
	}
	line := linesOf(history, func(p Point) (float64, bool) { return float64(p.Reconciles) / float64(most), true })
	return plot{fmt.Sprintf("In 5 minutes: up to %s per second", rateText(float64(most)/observe.HistoryStep.Seconds())), []plotLine{{"rate", line[0]}}}
}

// durationPlot is the plot of the percentiles, in a logarithmic scale. A line has a gap where nothing was reconciled.
func durationPlot(history []Point) plot {
	low, high := Seconds(math.Inf(1)), Seconds(0)
	for _, p := range history {
		if p.Reconciles > 0 {
			low, high = min(low, p.P50), max(high, p.P99)
		}
	}
	scale := math.Log(float64(high / low))
	height := func(of func(Point) Seconds) func(Point) (float64, bool) {
		return func(p Point) (float64, bool) {
			if p.Reconciles == 0 {
				return 0, false
			}
			if scale == 0 {
				return 0.5, true
			}
			return math.Log(float64(of(p)/low)) / scale, true
		}
	}
	all := plot{Title: fmt.Sprintf("In 5 minutes: p50 from %v, p99 up to %v", low, high)}
	for _, points := range linesOf(history, height(func(p Point) Seconds { return p.P99 })) {
		all.Lines = append(all.Lines, plotLine{"p99", points})
	}
	for _, points := range linesOf(history, height(func(p Point) Seconds { return p.P50 })) {
		all.Lines = append(all.Lines, plotLine{"p50", points})
	}
	return all
}

// linesOf returns polylines: height is between 0 and 1, and false ends a line.
func linesOf(history []Point, height func(Point) (float64, bool)) []string {
	var lines []string
	var line []string
	width := float64(plotWidth) / float64(len(history))
	end := func() {
		if len(line) > 0 {
			lines = append(lines, strings.Join(line, " "))
		}
		line = nil
	}
	for i, p := range history {
		h, ok := height(p)
		if !ok {
			end()
			continue
		}
		const margin = 2
		y := plotHeight - margin - h*(plotHeight-2*margin)
		// A step is as wide as its time, so that a single one is seen.
		line = append(line, fmt.Sprintf("%.4g,%.4g %.4g,%.4g", float64(i)*width, y, float64(i+1)*width, y))
	}
	end()
	return lines
}
