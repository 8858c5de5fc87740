package lab

import "slices"

// reduced returns the shrunk finding. A finding that does not replay stays as it is, and so does one that only replays before it is shrunk.
func (e *explorer) reduced(f *Finding) *Finding {
	if !e.confirm(f) {
		return f
	}
	if smaller := e.shrink(f); smaller == f || e.confirm(smaller) {
		return e.shrinkSteps(smaller)
	}
	return f
}

// shrink leaves out each choice that the finding does not need, and simplifies the others.
func (e *explorer) shrink(f *Finding) *Finding {
	for i := 0; i < len(f.Schedule); i++ {
		if smaller := e.fails(slices.Delete(slices.Clone(f.Schedule), i, i+1), f.Check); smaller != nil {
			f, i = smaller, -1 // without this choice, an earlier one may not matter either
		}
	}
	for i, c := range f.Schedule {
		simple := slices.Clone(f.Schedule)
		switch {
		case c.Do.isCrash() && c.Object != "":
			simple[i].Object = ""
		case c.Until == nil && c.For == 0 || c.Do == Jump:
			continue
		default:
			simple[i].Until, simple[i].For = nil, 0
		}
		if smaller := e.fails(simple, f.Check); smaller != nil {
			f = smaller
		}
	}
	return f
}

// fails runs a schedule and returns its finding if the check fails.
func (e *explorer) fails(s Schedule, check string) *Finding {
	if len(s) == 0 {
		return nil
	}
	if r := e.run(s, clean{}); r.finding != nil && r.finding.Check == check {
		return r.finding
	}
	return nil
}
