package main

import (
	"fmt"
	"path"
	"slices"
)

// required is the coverage in percent that each kind must have.
const required = 80

// result is how much of its validation a kind reaches.
type result struct {
	kind           string
	reached, total int      // statements
	missing        []string // where they are that were not reached
	stale          []string // functions in unreachable.txt that were reached
}

func (r result) String() string {
	return fmt.Sprintf("%-60s %5d of %5d  %3d%%", r.kind, r.reached, r.total, r.percent())
}

func (r result) percent() int { return 100 * r.reached / max(1, r.total) }

// problems returns why a result is not good enough.
func (r result) problems() []string {
	var all []string
	switch {
	case r.total == 0:
		all = append(all, "no validation was found")
	case r.percent() < required:
		all = append(all, fmt.Sprintf("less than %d %%", required))
	}
	for _, name := range r.stale {
		all = append(all, name+" was reached, but unreachable.txt lists it")
	}
	return all
}

// result returns the result of a kind with the blocks of a profile.
func (s *source) result(kind string, blocks []block) result {
	r := result{kind: kind}
	within, reachable := map[*function][]block{}, map[*function]bool{}
	for _, b := range blocks {
		f := s.at(b)
		if f == nil {
			continue
		}
		within[f] = append(within[f], b)
		if b.times == 0 {
			continue
		}
		if s.unreachable(kind, f, b.line) {
			r.stale = append(r.stale, f.name)
		} else {
			s.reach(kind, f, reachable)
		}
	}
	for f := range reachable {
		for _, b := range within[f] {
			if s.unreachable(kind, f, b.line) {
				continue
			}
			r.total += b.statements
			if b.times > 0 {
				r.reached += b.statements
			} else {
				r.missing = append(r.missing, fmt.Sprintf("%s:%d %s", b.file, b.line, path.Base(f.name)))
			}
		}
	}
	slices.Sort(r.missing)
	slices.Sort(r.stale)
	r.stale = slices.Compact(r.stale)
	return r
}

// reach adds a function and what it mentions.
func (s *source) reach(kind string, f *function, reachable map[*function]bool) {
	if reachable[f] || s.unreachable(kind, f, f.lines.first) {
		return
	}
	reachable[f] = true
	for _, m := range f.mentions {
		if next := s.functions[m.name]; next != nil && !s.unreachable(kind, f, m.line) {
			s.reach(kind, next, reachable)
		}
	}
}
