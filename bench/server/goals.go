package main

import "fmt"

// goals are figures of a measurement with what they may be at most.
type goals []goal

type goal struct {
	name      string
	got, most float64
}

// add adds a figure.
func (g *goals) add(name string, got, most float64) { *g = append(*g, goal{name, got, most}) }

// print prints which goals are reached.
func (g goals) print() {
	for _, goal := range g {
		verdict := "reached"
		if !(goal.got <= goal.most) {
			verdict = "not reached"
		}
		fmt.Printf("%s: %s: %.3f, and may be %.3f\n", verdict, goal.name, goal.got, goal.most)
	}
}
