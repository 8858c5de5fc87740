package lab

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/internal/canonical"
)

// replayed is the check that a schedule gives the same writes each time.
const replayed = "replay"

// writes returns the canonical writes of a run in their order: who wrote, which object, and its fields.
func (w *world) writes() []string {
	uids, pairs := map[string]bool{}, []string(nil)
	replacements := w.names.replacements()
	for _, ev := range w.trace {
		for i := range ev.changes {
			object, err := decode(ev.changes[i].value())
			if err != nil {
				continue
			}
			o := &unstructured.Unstructured{Object: object}
			if uid := string(o.GetUID()); uid != "" && !uids[uid] {
				uids[uid] = true
				pairs = append(pairs, uid, fmt.Sprintf("uid%d", len(uids)))
			}
		}
	}
	for name, replacement := range replacements {
		pairs = append(pairs, name, replacement)
	}
	c := canonical.Of(strings.NewReplacer(sortPairs(pairs)...))
	var all []string
	for _, ev := range w.trace {
		for i := range ev.changes {
			all = append(all, canonicalWrite(c, &ev, &ev.changes[i]))
		}
	}
	return all
}

// sortPairs orders pairs of an old and a new text so that a text comes before its prefixes.
func sortPairs(pairs []string) []string {
	type pair struct{ from, to string }
	var all []pair
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, pair{pairs[i], pairs[i+1]})
	}
	slices.SortFunc(all, func(a, b pair) int {
		if len(a.from) != len(b.from) {
			return len(b.from) - len(a.from)
		}
		return strings.Compare(a.from, b.from)
	})
	sorted := make([]string, 0, len(pairs))
	for _, p := range all {
		sorted = append(sorted, p.from, p.to)
	}
	return sorted
}

// canonicalWrite returns a write in canonical form.
func canonicalWrite(c *canonical.Form, ev *event, change *change) string {
	author := "a user"
	if ev.action != nil {
		author = ev.action.process.name
	}
	object, err := decode(change.value())
	if err != nil {
		return fmt.Sprintf("%s %s %s: %v", author, typeName(change.kind), change.key, err)
	}
	o := &unstructured.Unstructured{Object: object}
	fields := c.Fields(o)
	hide(kindOf(o), fields)
	text := strings.TrimSuffix(strings.ReplaceAll(fields.Text(), "\n", " "), " ")
	return fmt.Sprintf("%s %s %s: %s", author, typeName(change.kind), c.Text(describe(o)), text)
}

// divergence returns the first difference between the writes of two runs, or "".
func divergence(first, second []string) string {
	for i := range max(len(first), len(second)) {
		a, b := "none", "none"
		if i < len(first) {
			a = first[i]
		}
		if i < len(second) {
			b = second[i]
		}
		if a != b {
			return fmt.Sprintf("write %d was\n  %s\nand then\n  %s", i+1, a, b)
		}
	}
	return ""
}

// again carries out a schedule once more, and returns a finding if its writes differ from the ones of the first run. So
// an operator is found that is random: by the order of a map, a select statement, or a random number.
func (e *explorer) again(first *result) *Finding {
	second := e.run(first.world.schedule, clean{})
	d := ""
	switch {
	case second.world != nil:
		d = divergence(first.world.writes(), second.world.writes())
	case second.finding != nil: // that ended the bubble
		d = second.finding.Message
	}
	if d == "" {
		return nil
	}
	return &Finding{Check: replayed, Schedule: first.world.schedule, Steps: e.refs(), Story: first.world.story(nil), Divergence: d,
		Message: "the same schedule gives another run, because the operator depends on chance: " + d}
}

// confirm carries out the schedule of a finding once more, and reports whether that gives the same writes and the same finding. If not,
// the finding says what was different.
func (e *explorer) confirm(f *Finding) bool {
	if f.Check != replayed { // which has been carried out twice
		second := e.run(f.Schedule, clean{})
		if f.Divergence = f.divergence(&second); f.Divergence != "" {
			f.Story += "\nThe operator depends on chance, and a replay need not show this. In a replay, " + f.Divergence + "\n"
		}
	}
	return f.Divergence == ""
}

// divergence returns the first difference between the run of a finding and another run of its schedule, or "".
func (f *Finding) divergence(second *result) string {
	var writes []string
	switch {
	case second.finding != nil:
		writes = second.finding.writes
	case second.world != nil:
		writes = second.world.writes()
	}
	d := divergence(f.writes, writes)
	if instead := f.insteadIn(second); d == "" && instead != "" {
		d = "the writes were the same, and " + instead
	}
	return d
}

// insteadIn says what another run of the schedule shows instead of the finding, or "".
func (f *Finding) insteadIn(second *result) string {
	switch {
	case second.finding == nil && !second.counts:
		return "the run did not come to the point of a fault"
	case second.finding == nil:
		return "nothing was found"
	case second.finding.Check != f.Check:
		return fmt.Sprintf("something else was found: %s: %s", second.finding.Check, second.finding.Message)
	}
	return ""
}
