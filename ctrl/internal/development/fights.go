package development

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/config"
	"flyball.dev/internal/objectdiff"
)

const (
	// fightTurns is how often two writers have to change a field back and forth, within fightWindow.
	fightTurns  = 6
	fightWindow = 10 * time.Minute
	// suspiciousTurns is how often two writers write an object in turn before its fields are compared.
	suspiciousTurns = 2
)

// hashSeed is the seed of the hashes of values.
var hashSeed = maphash.MakeSeed()

// fights are the turns of two writers at an object, and at a field. They are by UID: an object that is
// created again, as each test of a suite does, begins anew.
type fights struct {
	objects *bounded[types.UID, turns]
	fields  *bounded[field, turns]
}

// field is a field of an object.
type field struct {
	uid  types.UID
	path string
}

// turns counts how often two writers have written in turn, of whom at least one restores what it had
// written before. Two who count up a number, say, do not.
type turns struct {
	last, previous           writer
	lastValue, previousValue uint64 // hashes of what they have written
	restored                 bool   // whether the last write was of the same value as the writer's before
	count                    int
	since                    time.Time
}

func newFights() fights {
	return fights{newBounded[types.UID, turns](maxTracked), newBounded[field, turns](maxTracked)}
}

// next returns the turns after one more write, of a value with this hash.
func (t turns) next(by writer, value uint64, now time.Time) turns {
	if by == t.last {
		t.lastValue = value
		return t
	}
	n := turns{last: by, previous: t.last, lastValue: value, previousValue: t.lastValue, since: now}
	if by == t.previous && now.Sub(t.since) <= fightWindow {
		n.restored = value == t.previousValue
		if n.restored || t.restored {
			n.count, n.since = t.count+1, t.since
		}
	}
	return n
}

// checkFight warns of a field that this process and another writer set back and forth.
func (m *Monitor) checkFight(c *change) {
	now, uid := time.Now(), c.after.GetUID()
	object, _ := m.fights.objects.get(uid)
	object = object.next(c.by, 0, now)
	m.fights.objects.put(uid, object)
	if object.count < suspiciousTurns || isByHand(c.by) {
		return
	}
	for _, difference := range c.fields() {
		path := difference.Path
		if isTrigger(difference) {
			continue
		}
		id := field{uid, path}
		t, _ := m.fights.fields.get(id)
		t = t.next(c.by, maphash.String(hashSeed, fmt.Sprint(difference.Value)), now)
		m.fights.fields.put(id, t)
		if t.count < fightTurns || !t.last.own && !t.previous.own {
			continue
		}
		a, b := t.last, t.previous
		if !a.own || b.own && a.controller > b.controller {
			a, b = b, a
		}
		m.warn(config.Warning{
			Check: config.CheckFights, GVK: c.gvk, Object: c.NamespacedName, Field: path,
			Writer: fmt.Sprintf("%s and %s", a, b),
			Message: "Two writers set the field back and forth, and neither will stop. " +
				"Let one of them write it; with server-side apply, do not apply a field that is not yours",
		})
	}
}

// isTrigger reports whether a change removes an annotation. Who sets it again, and again has it removed,
// asks for something by it, as with Argo CD's refresh: that is no fight.
func isTrigger(c objectdiff.Change) bool {
	return c.Value == nil && strings.HasPrefix(c.Path, "metadata.annotations")
}

// isByHand reports whether a writer is a person at a terminal, who stops sooner or later.
func isByHand(w writer) bool {
	return !w.own && strings.HasPrefix(w.manager, "kubectl-") && w.manager != "kubectl-client-side-apply"
}

// fields returns the fields that changed, without those that the API server sets.
func (c *change) fields() []objectdiff.Change {
	if !c.compared {
		c.compared = true
		c.differences = slices.DeleteFunc(objectdiff.Changes(c.before, c.after), func(d objectdiff.Change) bool {
			return d.Path == "metadata.generation"
		})
	}
	return c.differences
}

// within reports whether all fields that changed are at or below a path.
func (c *change) within(path string) bool {
	for _, f := range c.fields() {
		if f.Path != path && !strings.HasPrefix(f.Path, path+".") && !strings.HasPrefix(f.Path, path+"[") {
			return false
		}
	}
	return len(c.fields()) > 0
}
