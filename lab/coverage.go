package lab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Coverage says what an exploration has tried, so that "no finding" means something.
type Coverage struct {
	// Faults are the kinds of faults that were planned.
	Faults []FaultCoverage `json:"faults"`
	// Writes are the operator's writes in the clean run, with the faults that have happened at them, such as crashes.
	Writes map[string][]Fault `json:"writes"`
	// Kinds are the resources that the operator watches, with the faults of its view that have happened.
	Kinds map[string][]Fault `json:"kinds"`
	// Pairs are the faults that have happened in one run with another one, by the one that comes first in [Faults].
	Pairs map[string][]Fault `json:"pairs,omitempty"`
	// Edits are the changes of custom resources that the server has accepted.
	Edits []string `json:"edits,omitempty"`
}

// A FaultCoverage is the coverage of a kind of fault.
type FaultCoverage struct {
	Fault Fault `json:"fault"`
	// Points is the number of places in the clean run at which the fault makes sense, and Tried the number of these at
	// which it has happened. A place is an action, and an object or a later action if the fault needs one.
	Points int `json:"points"`
	Tried  int `json:"tried"`
	// Runs is the number of runs with the fault, alone or with others.
	Runs int `json:"runs"`
}

// coverage collects what an exploration has tried.
type coverage struct {
	planned map[Fault]map[string]bool // by the text of the choice: whether it has happened
	runs    map[Fault]int
	writes  map[string]map[Fault]bool
	kinds   map[string]map[Fault]bool
	pairs   map[string]map[Fault]bool
	edits   map[string]bool
}

// newCoverage returns the coverage of an exploration that plans these choices.
func newCoverage(p *points, families [][]Choice) *coverage {
	c := &coverage{planned: map[Fault]map[string]bool{}, runs: map[Fault]int{}, writes: map[string]map[Fault]bool{},
		kinds: map[string]map[Fault]bool{}, pairs: map[string]map[Fault]bool{}, edits: map[string]bool{}}
	for _, family := range families {
		for _, choice := range family {
			if c.planned[choice.Do] == nil {
				c.planned[choice.Do] = map[string]bool{}
			}
			c.planned[choice.Do][choice.String()] = false
		}
	}
	for _, point := range p.writes {
		c.writes[point.String()] = map[Fault]bool{}
	}
	for _, point := range p.sights {
		c.kinds[resourceOf(point.Action)] = map[Fault]bool{}
	}
	return c
}

// resourceOf returns the resource in the name of an action.
func resourceOf(action string) string {
	words := strings.Fields(action)
	if len(words) < 3 {
		return action
	}
	return words[2]
}

// add adds a schedule in which all faults took place.
func (c *coverage) add(s Schedule) {
	for i, choice := range s {
		if !slices.ContainsFunc(s[:i], func(earlier Choice) bool { return earlier.Do == choice.Do }) {
			c.runs[choice.Do]++
		}
		for _, other := range s[:i] {
			c.addPair(other.Do, choice.Do)
		}
		if _, planned := c.planned[choice.Do][choice.String()]; planned {
			c.planned[choice.Do][choice.String()] = true
		}
		if at := c.writes[choice.At.String()]; at != nil {
			at[choice.Do] = true
		}
		if at := c.kinds[resourceOf(choice.At.Action)]; at != nil && strings.Contains(choice.At.Action, " "+see+" ") {
			at[choice.Do] = true
		}
		if choice.Do == Change {
			c.edits[choice.Object+" "+string(choice.Patch)] = true
		}
	}
}

// addPair adds two faults of one run.
func (c *coverage) addPair(a, b Fault) {
	if slices.Index(faults, a) > slices.Index(faults, b) {
		a, b = b, a
	}
	if c.pairs[string(a)] == nil {
		c.pairs[string(a)] = map[Fault]bool{}
	}
	c.pairs[string(a)][b] = true
}

// report returns the coverage in an order that depends on nothing else.
func (c *coverage) report() Coverage {
	r := Coverage{Writes: map[string][]Fault{}, Kinds: map[string][]Fault{}, Pairs: map[string][]Fault{}, Edits: slices.Sorted(maps.Keys(c.edits))}
	for _, fault := range faults {
		places := c.planned[fault]
		tried := 0
		for _, happened := range places {
			if happened {
				tried++
			}
		}
		if len(places) > 0 || c.runs[fault] > 0 {
			r.Faults = append(r.Faults, FaultCoverage{Fault: fault, Points: len(places), Tried: tried, Runs: c.runs[fault]})
		}
	}
	for name, at := range c.writes {
		r.Writes[name] = slices.Sorted(maps.Keys(at))
	}
	for name, at := range c.kinds {
		r.Kinds[name] = slices.Sorted(maps.Keys(at))
	}
	for name, others := range c.pairs {
		r.Pairs[name] = slices.Sorted(maps.Keys(others))
	}
	return r
}

// String returns the coverage as a person reads it.
func (c Coverage) String() string {
	var b strings.Builder
	b.WriteString("tried, of the places in the clean run at which it makes sense:\n")
	for _, f := range c.Faults {
		fmt.Fprintf(&b, "  %-28s %4d of %4d, in %d runs\n", f.Fault, f.Tried, f.Points, f.Runs)
	}
	matrix := func(title string, rows map[string][]Fault) {
		fmt.Fprintf(&b, "%s:\n", title)
		for _, name := range slices.SortedFunc(maps.Keys(rows), func(a, b string) int { return cmp.Or(len(rows[a])-len(rows[b]), cmp.Compare(a, b)) }) {
			texts := make([]string, len(rows[name]))
			for i, f := range rows[name] {
				texts[i] = string(f)
			}
			fmt.Fprintf(&b, "  %s: %s\n", name, cmp.Or(strings.Join(texts, ", "), "nothing"))
		}
	}
	matrix("faults at the writes of the operator", c.Writes)
	matrix("faults at the events of the kinds that the operator watches", c.Kinds)
	if len(c.Pairs) > 0 {
		n, pairs := len(c.Faults), 0
		for _, others := range c.Pairs {
			pairs += len(others)
		}
		matrix(fmt.Sprintf("pairs of faults in one run, %d of %d", pairs, n*(n+1)/2), c.Pairs)
	}
	if len(c.Edits) > 0 {
		fmt.Fprintf(&b, "changes of custom resources: %d\n", len(c.Edits))
	}
	return b.String()
}

// saveCoverage writes the coverage to the directory of the flag -flyball.coverage.
func (e *explorer) saveCoverage(c *Coverage) error {
	if *coverageDir == "" {
		return nil
	}
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*coverageDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*coverageDir, e.name+".json"), append(content, '\n'), 0o644)
}
