package lab

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/storage"
)

// plans returns the schedules to try: first each single fault, the kinds of faults in turn and for each kind the points of the clean run;
// then each pair of them, and at last random combinations of three, without end. The pairs of the first faults come first, so that every
// two kinds of faults meet early.
func (e *explorer) plans(families [][]Choice) iter.Seq[Schedule] {
	return func(yield func(Schedule) bool) {
		singles := inTurn(families)
		for _, c := range singles {
			if !yield(Schedule{c}) {
				return
			}
		}
		for i, second := range singles {
			for _, first := range singles[:i] {
				if s := (Schedule{first, second}); !s.hidesLife() && !yield(s) {
					return
				}
			}
		}
		for random := rand.New(rand.NewPCG(1, 2)); len(singles) > 0; {
			s := make(Schedule, 3)
			for i := range s {
				s[i] = singles[random.IntN(len(singles))]
			}
			if !s.hidesLife() && !yield(s) {
				return
			}
		}
	}
}

// inTurn returns the first choices of all families, then the second ones, and so on.
func inTurn(families [][]Choice) (all []Choice) {
	for i, more := 0, true; more; i++ {
		more = false
		for _, family := range families {
			if i < len(family) {
				more = true
				all = append(all, family[i])
			}
		}
	}
	return all
}

// hidesLife reports whether a process may see neither that an object appears nor that somebody else deletes it. Then nothing
// tells the process to create the object again, and no operator can be right.
func (s Schedule) hidesLife() bool {
	return slices.ContainsFunc(s, func(gone Choice) bool {
		if gone.Do != Delete && gone.Do != Recreate {
			return false
		}
		_, object, _ := strings.Cut(gone.Object, " ")
		return slices.ContainsFunc(s, func(c Choice) bool {
			switch c.Do {
			case Bookmarks:
				return true
			case Miss, Expire, Close:
				return strings.HasSuffix(c.At.Action, " "+object+" added")
			}
			return false
		})
	})
}

// families returns the single faults at the points of the clean run, by kind of fault.
func (e *explorer) families(p *points) [][]Choice {
	at := func(points []Point, faults ...Fault) (all []Choice) {
		for _, f := range faults {
			for _, point := range points {
				all = append(all, Choice{At: point, Do: f})
			}
		}
		return all
	}
	lasting := func(d time.Duration, all []Choice) []Choice {
		for i := range all {
			all[i].For = d
		}
		return all
	}
	alike := map[string]bool{}
	travels := spread(p.reduce(p.timeTravels(TimeTravel), alike))
	crashes, conflicts, failures := at(p.writes, CrashAfter), at(p.writes, Conflict), at(p.calls, FailLate, Fail, CrashAfter)
	families := [][]Choice{
		third(crashes, 0),
		p.disturbancesAtRest(Delete),
		third(travels, 0),
		at(p.sights, Miss),
		at(p.writes, LateTimeout),
		p.disturbances(Delete),
		at(p.sights, FreezeKind),
		third(conflicts, 0),
		third(travels, 1),
		third(failures, 0),
		slices.Concat(p.restarts(), at(p.writes, CrashBefore)),
		slices.Concat(p.disturbances(Recreate), p.disturbancesAtRest(Recreate)),
		p.losses,
		at(p.writes, ServerError, Refuse, Lost),
		third(travels, 2),
		at(p.sights, Hold),
		third(crashes, 1),
		third(conflicts, 1),
		third(failures, 1),
		at(p.deposable(), Depose),
		at(p.sights, Freeze),
		spread(p.reduce(p.timeTravels(TimeTravelKind), alike)),
		at(p.writes, Hold),
		third(crashes, 2),
		third(conflicts, 2),
		third(failures, 2),
		p.disturbances(Edit),
		at(p.sights, CrashBefore, Expire, Bookmarks, Close),
		slices.Concat(at(p.reads, ServerError), at(p.writes, TooMany, Timeout), at(p.reads, TooMany, Timeout)),
		slices.Concat(at(p.writes, Slow), lasting(e.limits.horizon+e.limits.view, at(p.writes, Slow))),
		lasting(longPause, at(p.writes, Pause)),
		slices.Concat(lasting(shortOutage, at(p.writes, Conflict)), lasting(longOverload, at(p.writes, e.inVirtualTime(TooMany)...))),
		lasting(longJump, at(slices.Concat(p.writes, p.calls), e.inVirtualTime(Jump)...)),
		e.edits(),
	}
	for i, family := range families {
		if len(e.scenario.Only) > 0 {
			family = slices.DeleteFunc(family, func(c Choice) bool { return !slices.Contains(e.scenario.Only, c.Do) })
		}
		if len(family) > 0 && family[0].Until == nil {
			family = p.spread(p.reduce(family, alike))
		}
		families[i] = family
	}
	return families
}

// deposable are the points at which an operator may lose its Lease: at its renewals, and in the middle of its work.
func (p *points) deposable() []Point {
	if len(p.leases) == 0 {
		return nil
	}
	return slices.Concat(p.leases, p.writes)
}

// inVirtualTime returns the faults unless time is real.
func (e *explorer) inVirtualTime(faults ...Fault) []Fault {
	if e.program != nil {
		return nil
	}
	return faults
}

// longPause is how long a process stands still: longer than Leases usually last. longJump is how far the clock jumps.
// shortOutage is how long a request is refused, so that some of its repetitions are refused too. longOverload is longer than
// client-go repeats a request that gets 429: ten times, a second each.
const (
	longPause   = 40 * time.Second
	longJump    = time.Hour
	shortOutage = 3 * time.Second

	longOverload = 15 * time.Second
)

// third returns one choice of three. Time travels, crashes, conflicts and failures of external systems are many and tell much, so
// they have three turns.
func third(all []Choice, i int) (some []Choice) {
	for ; i < len(all); i += 3 {
		some = append(some, all[i])
	}
	return some
}

// spread is the function spread, but begins with the choices at the last write of each object: no later write of the
// operator hides what goes wrong there.
func (p *points) spread(all []Choice) []Choice {
	var last, others []Choice
	for _, c := range all {
		if p.last[c.At] {
			last = append(last, c)
		} else {
			others = append(others, c)
		}
	}
	return slices.Concat(spread(last), spread(others))
}

// spread orders choices so that the first ones are far apart: the first, the last, the middle, and so on. Faults at the
// begin of a run are often alike.
func spread(all []Choice) []Choice {
	var result []Choice
	taken := make([]bool, len(all))
	take := func(i int) {
		if i < len(all) && !taken[i] {
			taken[i] = true
			result = append(result, all[i])
		}
	}
	if len(all) > 0 {
		take(0)
		take(len(all) - 1)
	}
	for parts := 2; len(result) < len(all); parts *= 2 {
		for i := 1; i < parts; i += 2 {
			take(i * len(all) / parts)
		}
		if parts > 2*len(all) {
			for i := range all {
				take(i)
			}
		}
	}
	return result
}

// points are the actions of the operator in the clean run.
type points struct {
	writes, sights, calls, leases []Point // leases are the renewals of Leases
	primary                       []Point // events of the objects that users write
	children                      []child
	order                         []Point // writes and sights in their order
	reads                         []Point
	rests                         int      // before the end
	resting                       []Choice // with a rest, and an object of the operator that exists then
	losses                        []Choice // crashes at the writes to an object of the operator, which is deleted before the restart
	moments                       map[Point]moment
	last                          map[Point]bool // the last write of each object, and the last of each call
}

// A moment is a state of the cluster and of external systems in the clean run, with the time.
type moment struct {
	before, after int // the number of changes
	at            time.Duration
}

// reduce leaves out the faults that are alike: they end a process at the same moment, and what the process has done since
// its last write is lost; or they take its Lease at renewals between the same changes. It adds the faults that it keeps to alike.
func (p *points) reduce(all []Choice, alike map[string]bool) []Choice {
	return slices.DeleteFunc(all, func(c Choice) bool {
		m, known := p.moments[c.At]
		process, _, _ := strings.Cut(c.At.Action, " ")
		key := ""
		switch c.Do {
		case CrashBefore:
			key = fmt.Sprint(process, m.before, m.at, c.Object)
		case CrashAfter:
			key = fmt.Sprint(process, m.after, m.at, c.Object)
		case Depose: // between two changes, each renewal is alike; a process that writes something else does not learn of the loss
			if slices.Contains(p.leases, c.At) {
				key = fmt.Sprint(c.Do, process, m.before)
			}
		case TimeTravel, TimeTravelKind:
			until, ok := p.moments[*c.Until]
			key, known = fmt.Sprint(c.Do, c.At, until.after, until.at), ok
		}
		if key == "" || !known {
			return false
		}
		again := alike[key]
		alike[key] = true
		return again
	})
}

// child is an object that the operator has made, and the first action after that.
type child struct {
	object   string
	key      string // in the storage
	gone     bool
	finished bool // see hasFinished
	after    []Point
}

// observe learns from a change whether the child still exists, and whether it has finished.
func (c *child) observe(change *change) {
	if change.key != c.key {
		return
	}
	if c.gone = c.gone || change.kind == storage.Deleted; c.gone {
		return
	}
	if object, err := decode(change.after); err == nil {
		c.finished = hasFinished(&unstructured.Unstructured{Object: object})
	}
}

// points finds the points of the clean run at which a fault makes sense.
func (e *explorer) points() *points {
	p := &points{moments: map[Point]moment{}, last: map[Point]bool{}}
	lastOf := map[string]Point{} // by resource and object
	users, changes, form := map[string]bool{}, 0, newCanonical(&State{}, e.known.names)
	for _, ev := range e.known.trace {
		before := changes
		if changes += len(ev.changes); ev.action == nil || ev.action.verb == call {
			changes++
		}
		if ev.action != nil {
			p.moments[ev.action.point()] = moment{before, changes, ev.at}
		}
		for i := range p.children {
			if ev.action != nil && !ev.action.process.cluster && !ev.action.isLease() && !ev.action.isRecord() {
				p.children[i].after = append(p.children[i].after, ev.action.point())
			}
		}
		if ev.action == nil && strings.HasPrefix(ev.text, stepPrefix) {
			p.rest()
		}
		for _, c := range ev.changes {
			for i := range p.children {
				p.children[i].observe(&c)
			}
		}
		if ev.action == nil {
			for _, c := range ev.changes {
				users[c.key] = true
			}
			continue
		}
		a := ev.action
		switch {
		case a.process.cluster:
			continue
		case a.isLease() && a.isWrite() && a.verb != "create": // before which nobody has the Lease
			p.leases = append(p.leases, a.point())
			continue
		case a.isLease(), a.isRecord():
			continue
		case a.isEvent():
			p.sights = append(p.sights, a.point())
			p.order = append(p.order, a.point())
			if userObject(users, a) {
				p.primary = append(p.primary, a.point())
			}
		case a.verb == call:
			p.calls = append(p.calls, a.point())
			lastOf[a.resource] = a.point()
		case a.isWrite():
			p.writes = append(p.writes, a.point())
			lastOf[a.resource+" "+a.object] = a.point()
			p.order = append(p.order, a.point())
		case a.verb == "get", a.verb == "list":
			p.reads = append(p.reads, a.point())
		}
		for _, c := range ev.changes {
			// The server makes others, too: with a Service, an IPAddress.
			if c.kind == storage.Created && strings.Contains(c.key, "/"+element(a.resource)+"/") {
				if object, err := decode(c.after); err == nil {
					o := &unstructured.Unstructured{Object: object}
					p.children = append(p.children, child{object: kindOf(o) + " " + o.GetNamespace() + "/" + form.Text(o.GetName()), key: c.key})
				}
			}
			for i := range p.children {
				if o := &p.children[i]; o.key == c.key && !o.gone && a.isWrite() {
					p.losses = append(p.losses, Choice{At: a.point(), Do: CrashAfter, Object: o.object})
				}
			}
		}
	}
	p.rest()
	p.rests--
	for _, point := range lastOf {
		p.last[point] = true
	}
	return p
}

// rest notes the objects of the operator that exist at a rest.
func (p *points) rest() {
	for _, c := range p.children {
		if !c.gone && !c.finished {
			p.resting = append(p.resting, Choice{At: Point{Action: atRest, N: p.rests}, Object: c.object})
		}
	}
	p.rests++
}

// disturbancesAtRest returns the faults that change an object of the operator at rest, when nothing else wakes the operator.
func (p *points) disturbancesAtRest(kind Fault) []Choice {
	all := slices.Clone(p.resting)
	for i := range all {
		all[i].Do = kind
	}
	return all
}

// restarts returns the faults that restart the operator at a rest. At the last one, each run does that.
func (p *points) restarts() (all []Choice) {
	for n := range p.rests {
		all = append(all, Choice{At: Point{Action: atRest, N: n}, Do: CrashBefore})
	}
	return all
}

// userObject reports whether an event is about an object that a user has written.
func userObject(users map[string]bool, a *action) bool {
	object := "/" + strings.TrimPrefix(a.object, "/")
	for key := range users {
		if strings.HasSuffix(key, object) && strings.Contains(key, "/"+element(a.resource)+"/") {
			return true
		}
	}
	return false
}

// timeTravels returns the faults that restart the operator on a stale view, of all kinds or of one: the view stands still at each event of
// an object of a user, and the operator restarts at each later action.
func (p *points) timeTravels(kind Fault) (all []Choice) {
	for _, from := range p.primary {
		after := p.order[slices.Index(p.order, from)+1:]
		for i := range after {
			// The action may depend on the event, and then never happens: try all.
			all = append(all, Choice{At: from, Do: kind, Until: &after[i]})
		}
	}
	return all
}

// disturbances returns the faults that change an object of the operator, at each later action.
func (p *points) disturbances(kind Fault) (all []Choice) {
	for _, c := range p.children {
		for i, point := range c.after {
			if i < 3 || i == len(c.after)-1 {
				all = append(all, Choice{At: point, Do: kind, Object: c.object})
			}
		}
	}
	return all
}
