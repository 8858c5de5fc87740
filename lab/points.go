package lab

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/storage"
)

// normalize gives the points of a schedule their numbers, and refuses a schedule that cannot be carried out.
func (s Schedule) normalize(c *conditions) error {
	for i := range s {
		if !slices.Contains(faults, s[i].Do) {
			return fmt.Errorf("choice %d: there is no fault %q", i+1, s[i].Do)
		}
		if (s[i].Do == TimeTravel || s[i].Do == TimeTravelKind) && s[i].Until == nil {
			return fmt.Errorf("choice %d: %s needs the point until, at which the process starts again", i+1, s[i].Do)
		}
		if s[i].For < 0 || s[i].Do == Jump && s[i].For == 0 {
			return fmt.Errorf("choice %d: %s for %v, want a positive time", i+1, s[i].Do, s[i].For)
		}
		if s[i].Do.isCrash() && s[i].Object != "" && s[i].At.Action == atRest {
			return fmt.Errorf("choice %d: an object is deleted while the process is down, and at rest no process stays down", i+1)
		}
		if s[i].At.Action == atRest && !s[i].Do.happensAtRest() {
			return fmt.Errorf("choice %d: %s needs an action, and cannot happen at rest", i+1, s[i].Do)
		}
		if words := strings.Fields(s[i].At.Action); len(words) > 1 && !s[i].Do.fits(words[1]) {
			return fmt.Errorf("choice %d: %s has no effect at %q: it needs %s", i+1, s[i].Do, s[i].At.Action, s[i].Do.place())
		}
		for _, p := range []*Point{&s[i].At, s[i].Until} {
			if p == nil || p.Action == atRest {
				continue
			}
			p.N = max(1, p.N)
			if p.When == "" {
				continue
			}
			if _, err := c.program(p.When); err != nil {
				return fmt.Errorf("choice %d, %s: %w", i+1, p.Action, err)
			}
		}
	}
	return nil
}

// A counter counts the actions with a name, or with a pattern of names, for which a condition holds.
type counter struct {
	action, when string
	n            int
}

// anyObject stands for each object in the name of an action, such as "operator create pods *".
const anyObject = "*"

// isPattern reports whether the action of a point stands for several names.
func (p Point) isPattern() bool {
	return slices.Contains(strings.Fields(p.Action), anyObject)
}

// matches reports whether the action of a counter stands for a name.
func (c *counter) matches(name string) bool {
	if c.action == name {
		return true
	}
	before, after, found := strings.Cut(c.action, " "+anyObject)
	if !found || after != "" && after[0] != ' ' {
		return false // a generated name has a * too
	}
	object, found := strings.CutPrefix(name, before+" ")
	object, ends := strings.CutSuffix(object, after)
	return found && ends && object != "" && !strings.Contains(object, " ")
}

// counters returns the counters of the points with a condition or a pattern of a schedule.
func (s Schedule) counters() (all []*counter) {
	for _, c := range s {
		for _, p := range []*Point{&c.At, c.Until} {
			if p != nil && (p.When != "" || p.isPattern()) && !slices.ContainsFunc(all, func(c *counter) bool { return c.action == p.Action && c.when == p.When }) {
				all = append(all, &counter{action: p.Action, when: p.When})
			}
		}
	}
	return all
}

// count returns the points with a condition or a pattern that an action, or a write of the server, is. The world's mutex is locked.
func (w *world) count(name string, object, old func() map[string]any) (points []Point) {
	for _, c := range w.counters {
		if c.matches(name) && (c.when == "" || w.conditions.holds(c.when, object(), old())) {
			c.n++
			points = append(points, Point{Action: c.action, N: c.n, When: c.when})
		}
	}
	return points
}

// matchAction finds the points that an action is. The world's mutex is locked.
func (w *world) matchAction(a *action) {
	if len(w.counters) == 0 {
		return
	}
	key := a.resource + " " + a.object
	old := a.process.last[key]
	a.points = w.count(a.name(), func() map[string]any { return decodeJSON(a.content) }, func() map[string]any { return decodeJSON(old) })
	if a.isEvent() {
		a.process.last[key] = a.content
	}
}

// decodeJSON returns the object in a request or an event, or nil.
func decodeJSON(content []byte) map[string]any {
	if len(content) == 0 {
		return nil
	}
	object := map[string]any{}
	if utiljson.Unmarshal(content, &object) != nil {
		return nil
	}
	return object
}

// matchChange notes the points that a write of the server is. The name of such a point begins with "server", such as
// "server created StatefulSet.apps default/web".
func (w *world) matchChange(c *change) {
	if !w.serverPoints {
		return
	}
	object, err := decode(c.value())
	if err != nil {
		return
	}
	o := &unstructured.Unstructured{Object: object}
	name := serverPoint + typeName(c.kind) + " " + kindOf(o) + " " + o.GetNamespace() + "/" + o.GetName()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[name]++
	w.happened[Point{Action: name, N: w.counts[name]}] = true
	old := func() map[string]any {
		if c.kind != storage.Modified {
			return nil
		}
		before, _ := decode(c.before)
		return before
	}
	for _, p := range w.count(name, func() map[string]any { return object }, old) {
		w.happened[p] = true
	}
}

// serverPoint begins the names of the points that are writes of the server.
const serverPoint = "server "

// hasServerPoints reports whether a schedule has points that are writes of the server.
func (s Schedule) hasServerPoints() bool {
	return slices.ContainsFunc(s, func(c Choice) bool {
		return c.Until != nil && strings.HasPrefix(c.Until.Action, serverPoint)
	})
}
