package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"flyball.dev/ctrl/reconcile"
)

// An action is something that can happen next: a request of a client reaches the server, or an event of a watch reaches
// its client. The goroutine behind an action waits until the lab has chosen the action.
type action struct {
	process  *process
	verb     string // of the request, or "see" for an event of a watch
	resource string // such as deployments.apps or deployments.apps/status
	object   string // canonical namespace and name; "" for lists and watches
	change   string // of an event: ADDED, MODIFIED or DELETED
	revision uint64 // of the object in an event
	content  []byte // the object of an event, or the body of a request, in JSON
	text     string // the result of name, once it is known

	causes     reconcile.Causes // of the reconcile that sends a write
	lock       bool             // the object is a lock of leader election, but not a Lease
	points     []Point          // with a condition that holds
	occurrence int              // among the actions of the run with the same name, from 1
	round      int              // in which the action became pending
	chosen     chan verdict     // receives once
	until      *release         // if not nil, the action waits for it
	finished   chan struct{}    // if not nil, closed when the server has carried out a write
}

// A verdict says what happens to a chosen action.
type verdict struct {
	fault fault // zero if nothing goes wrong
	dead  bool  // the process has crashed
}

// isWrite reports whether the action is a request that may change an object.
func (a *action) isWrite() bool { return changes(a.verb) }

// changes reports whether requests with a verb may change an object.
func changes(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// isEvent reports whether the action is an event of a watch.
func (a *action) isEvent() bool { return a.verb == see }

// see is the verb of an event of a watch.
const see = "see"

// isLease reports whether the action belongs to leader election.
func (a *action) isLease() bool { return a.resource == leaseResource || a.lock }

const leaseResource = "leases.coordination.k8s.io"

// isRecord reports whether the action writes an event object, which is no state.
func (a *action) isRecord() bool {
	return a.resource == "events" || a.resource == "events.events.k8s.io"
}

// name returns the canonical name of the action. Two runs give the same name to the same action.
func (a *action) name() string {
	if a.text == "" {
		a.text = a.newName()
	}
	return a.text
}

func (a *action) newName() string {
	var b strings.Builder
	b.WriteString(a.process.name)
	b.WriteByte(' ')
	b.WriteString(a.verb)
	b.WriteByte(' ')
	b.WriteString(a.resource)
	if a.object != "" {
		b.WriteByte(' ')
		b.WriteString(a.object)
	}
	if a.change != "" {
		b.WriteByte(' ')
		b.WriteString(strings.ToLower(a.change))
	}
	return b.String()
}

// point returns the point in the run at which the action happens.
func (a *action) point() Point { return Point{Action: a.name(), N: a.occurrence} }

// is reports whether the action happens at a point.
func (a *action) is(p Point) bool { return a.point() == p || slices.Contains(a.points, p) }

// A Point names an action of a run: the Nth action with this name.
type Point struct {
	// Action is the name. The word * in it stands for each object: "operator create pods *".
	Action string `json:"action"`
	N      int    `json:"n,omitempty"`
	// When, if not empty, is an expression of CEL: the point is the Nth action with this name for which it is true. The
	// variable object is the object of an event or the body of a request, and oldObject the object of the last event
	// that the process has seen of the same object, or null.
	When string `json:"when,omitempty"`
}

// String returns the name of the action, with its number if it is not the first of its name. The first rest has the number 0.
func (p Point) String() string {
	text := p.Action
	if p.N > 1 || p.N == 1 && p.Action == atRest {
		text = fmt.Sprintf("%s #%d", text, p.N)
	}
	if p.When != "" {
		text += " when " + p.When
	}
	return text
}

// compareActions is the canonical order of pending actions: older ones first, and actions of the cluster's controllers
// before all others.
func compareActions(a, b *action) int {
	if a.process.cluster != b.process.cluster {
		if a.process.cluster {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.name(), b.name()), cmp.Compare(a.occurrence, b.occurrence))
}
