package lab

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Schedule is the list of choices that distinguish a run from the clean run. At every other point the lab takes the
// first pending action of the canonical order.
type Schedule []Choice

// A Choice is what the lab does at a point of a run.
type Choice struct {
	// At is the action at which the choice is made.
	At Point `json:"at"`
	// Do is what happens; see [Fault].
	Do Fault `json:"do"`
	// Until is the action or the write that ends a hold, a frozen view or the downtime of a process. The choice ends before anything
	// else happens, so the response to that action may be lost. A time travel restarts the process at Until. Without Until and For, a
	// process starts again at once, a hold ends when nothing else can happen, and a frozen view when nothing has changed for half a
	// minute.
	Until *Point `json:"until,omitempty"`
	// For ends a hold, a frozen view or the time that a process is down after some virtual time. A fault that answers a
	// request answers all requests with the same name in that time.
	For time.Duration `json:"for,omitempty"`
	// Object is the object that [Delete], [Edit], [Recreate] and [Change] change: its kind, and its canonical namespace and
	// name. With [CrashBefore] and [CrashAfter], somebody else deletes the object while the process is down.
	Object string `json:"object,omitempty"`
	// Patch is the JSON merge patch of [Change].
	Patch json.RawMessage `json:"patch,omitempty"`
	// Seen says that a view stands still after the event At, and not before the event.
	Seen bool `json:"seen,omitempty"`
}

// A Fault is a kind of perturbation.
type Fault string

const (
	// CrashBefore ends the process before its request reaches the server, or before it sees the event.
	CrashBefore Fault = "crash before"
	// CrashAfter ends the process when the server has carried out its request, and before the response arrives.
	CrashAfter Fault = "crash after"
	// Hold delays the action: the request has not reached the server yet, or the process has not seen the event.
	Hold Fault = "hold"
	// Freeze stops the view of the process at the revision before an event: lists, gets and watches show nothing later.
	Freeze Fault = "freeze"
	// FreezeKind is Freeze for the resource of the event alone.
	FreezeKind Fault = "freeze kind"
	// TimeTravel restarts the process at Until, on a view that stands still at the revision before the event At. A process
	// that connects to a stale API server has such a view. The view goes on when nothing has changed for half a
	// minute.
	TimeTravel Fault = "time travel"
	// TimeTravelKind is TimeTravel for the resource of the event alone.
	TimeTravelKind Fault = "time travel kind"
	// Miss hides an event, and all further ones of the object up to Until: the watch breaks then, and the next list has
	// a later state of the object. Without Until, the next event of the object ends it.
	Miss Fault = "miss"
	// Bookmarks hides an event, and all further ones of the watch: the client sees only bookmarks. The watch ends with
	// 410 Gone at Until, or when nothing has changed for half a minute, and the next list has the later states.
	Bookmarks Fault = "bookmarks only"
	// Pause stops the process: none of its requests reaches the server, and it sees no event.
	Pause Fault = "pause"
	// Close ends the watch before the event.
	Close Fault = "close watch"
	// Expire ends the watch before the event with 410 Gone.
	Expire Fault = "expire watch"
	// Conflict answers a write with 409 Conflict, without effect.
	Conflict Fault = "conflict"
	// TooMany answers with 429 Too Many Requests and Retry-After, without effect.
	TooMany Fault = "too many requests"
	// ServerError answers with 500, without effect.
	ServerError Fault = "server error"
	// Refuse denies a write, as an admission webhook does.
	Refuse Fault = "refuse"
	// Timeout answers with 504, without effect.
	Timeout Fault = "timeout"
	// LateTimeout carries the request out and answers with 504.
	LateTimeout Fault = "timeout after effect"
	// Lost carries the request out and breaks the connection.
	Lost Fault = "lost response"
	// Depose gives the Lease of the process to somebody else. The process does not know it until it tries to renew the
	// Lease.
	Depose Fault = "depose"
	// Delete deletes an object as a user of kubectl does. The garbage collector deletes its dependents.
	Delete Fault = "delete"
	// Edit sets an annotation of an object as a user does, so that the operator's copy of the object is stale.
	Edit Fault = "edit"
	// Recreate deletes an object and creates another one with the same name. It has another controller, or none if the object has
	// none. Somebody deletes it when nothing has changed for half a minute.
	Recreate Fault = "recreate"
	// Change changes a custom resource by the patch of the choice, as a user does, and changes it back when the world is at
	// rest again. If the schedule has no other choice, the state in between must be the one that a creation of the changed object
	// gives. The point of the choice is a rest: {"action": "rest", "n": 2} is the one after the second step.
	Change Fault = "change"
	// Jump moves the clock forward while the action is pending.
	Jump Fault = "clock jump"
	// Slow holds all requests of the cluster's controllers.
	Slow Fault = "slow controllers"
	// Fail makes a call of an external system fail.
	Fail Fault = "external failure"
	// FailLate carries out a call of an external system, which reports a failure all the same.
	FailLate Fault = "external failure after effect"
)

// Faults returns all kinds of faults.
func Faults() []Fault { return slices.Clone(faults) }

// faults are all kinds of faults.
var faults = []Fault{CrashBefore, CrashAfter, Hold, Freeze, FreezeKind, TimeTravel, TimeTravelKind, Miss, Bookmarks, Pause, Close, Expire,
	Conflict, TooMany, ServerError, Refuse, Timeout, LateTimeout, Lost, Depose, Delete, Edit, Recreate, Change, Jump, Slow, Fail, FailLate}

// ofView reports whether the choice is about what a process sees, and when it runs, and nothing else.
func (c *Choice) ofView() bool {
	switch c.Do {
	case CrashBefore, CrashAfter:
		return c.Object == ""
	case Freeze, FreezeKind, TimeTravel, TimeTravelKind, Miss, Bookmarks, Pause, Hold, Close, Expire:
		return true
	}
	return false
}

// makesOld reports whether a process acts on an old view once the fault has begun. After a time travel the next process does.
func (f Fault) makesOld() bool {
	switch f {
	case Freeze, FreezeKind, Miss, Bookmarks, Pause, Hold:
		return true
	}
	return false
}

// isCrash reports whether the fault ends a process.
func (f Fault) isCrash() bool { return f == CrashBefore || f == CrashAfter }

// leavesHistory reports whether the cluster's controllers keep what was before the fault, or lose it, or make something for an
// owner that is gone.
func (c *Choice) leavesHistory() bool {
	switch c.Do {
	case Change, Delete, Recreate, Slow:
		return true
	}
	return c.Do.isCrash() && c.Object != ""
}

// ofRequest reports whether the fault is the answer to a request.
func (f Fault) ofRequest() bool {
	switch f {
	case Conflict, TooMany, ServerError, Refuse, Timeout, LateTimeout, Lost:
		return true
	}
	return false
}

// Where a fault has an effect.
const (
	anywhere = "an action"
	atEvent  = "an event that the operator sees"
	atCall   = "a call of an external system"
	atWrite  = "a write"
	atSent   = "a request"
	atEffect = "a request or a call of an external system"
)

// place returns where the fault has an effect, but for rests.
func (f Fault) place() string {
	switch f {
	case Freeze, FreezeKind, TimeTravel, TimeTravelKind, Miss, Bookmarks, Close, Expire:
		return atEvent
	case Fail, FailLate:
		return atCall
	case Conflict, Refuse:
		return atWrite
	case TooMany, ServerError, Timeout, LateTimeout, Lost:
		return atSent
	case CrashAfter:
		return atEffect
	case Change:
		return "a rest"
	}
	return anywhere
}

// fits reports whether the fault has an effect at an action with a verb.
func (f Fault) fits(verb string) bool {
	switch f.place() {
	case anywhere:
		return true
	case atEvent:
		return verb == see
	case atCall:
		return verb == call
	case atWrite:
		return changes(verb)
	case atSent:
		return verb != see && verb != call
	case atEffect:
		return verb != see
	}
	return false
}

// String returns the choice in one line.
func (c Choice) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %q", c.Do, c.At)
	if c.Object != "" {
		fmt.Fprintf(&b, " (%s)", c.Object)
	}
	if len(c.Patch) > 0 {
		fmt.Fprintf(&b, " to %s", c.Patch)
	}
	if c.Seen {
		b.WriteString(", which it sees,")
	}
	if c.Until != nil {
		fmt.Fprintf(&b, " until %q", *c.Until)
	}
	if c.For > 0 {
		fmt.Fprintf(&b, " for %v", c.For)
	}
	return b.String()
}

// fault is a choice that takes effect at an action.
type fault struct {
	choice *Choice
}

// is reports whether the fault is of the given kind.
func (f fault) is(kind Fault) bool { return f.choice != nil && f.choice.Do == kind }

// release is the condition that ends a hold.
type release struct {
	point *Point        // an action that has happened
	at    time.Duration // virtual time since the begin of the run; zero for none
}
