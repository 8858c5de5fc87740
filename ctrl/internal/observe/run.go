// Package observe records what the controllers of a manager do: each reconcile with its causes, reads, writes and log
// lines. Package console shows the records.
//
// A manager without a console has no [Recorder], and then nothing here is called. With one, a write costs two references
// to packed objects of the cache: differences between objects are computed when somebody looks at them. Log lines are
// formatted at once, since their values may change. The memory is bounded; the oldest records go first, from the
// controller with the most.
//
// # Concurrency
//
// All methods are safe for concurrent use. A [Run] is changed while its reconcile runs; readers get copies.
package observe

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/cause"
)

// The bounds of one record.
const (
	maxReads  = 128
	maxWrites = 256
	maxLines  = 128
)

// State is an object as it was at one moment.
type State interface {
	// Object returns a copy of the object.
	Object() client.Object
	// Size is about how many bytes it takes.
	Size() int
}

// Run is the record of one reconcile.
type Run struct {
	ID         uint64
	Controller string
	Name       types.NamespacedName // the request, if it is a reconcile.Request
	other      any                  // the request, if it is of another type
	Causes     cause.Causes
	Priority   int
	Started    time.Time

	mu      sync.Mutex // guards what follows
	outcome Outcome
	reads   []Read
	writes  []Write
	lines   []Line
	// dropped are the reads, writes and lines above the bounds.
	dropped [3]int
}

// Outcome is the end of a reconcile.
type Outcome struct {
	Ended    bool
	Took     time.Duration
	Result   string // as in the label result of controller_runtime_reconcile_total
	After    time.Duration
	Err      string
	Conflict bool
}

// Read is a read of a reconcile.
type Read struct {
	At        time.Duration // since the start of the reconcile
	List      bool
	Type      *Type
	Key       types.NamespacedName // of a list, only the namespace
	Version   string               // of the object or of the list, if it is known
	Items     int                  // of a list
	Cached    bool
	Contact   time.Duration // since the server last sent anything for the kind, if it was read from the cache
	NoWatch   bool          // whether no watch was open
	Took      time.Duration
	Err       string
	NotFound  bool
	Selection string // the selectors of a list
}

// Write is a write of a reconcile, or an attempt.
type Write struct {
	At          time.Duration
	Verb        string // create, update, patch, apply, delete or deletecollection
	SubResource string
	Type        *Type
	Key         types.NamespacedName
	UID         types.UID
	Version     string // after the write, if it is known
	Was         string // the version in the cache before
	DryRun      bool
	Took        time.Duration
	Err         string

	// Before and After are the object before and after the write, nil if they are not known.
	Before, After State
}

// Line is a log line of a reconcile.
type Line struct {
	At      time.Duration
	Level   int // -1 is an error
	Message string
	Values  string
}

// Type is the type of an object.
type Type struct {
	GVK  schema.GroupVersionKind
	list bool
	live bool // whether it is never read from the cache

	mu     sync.Mutex
	cached CachedKind // the informer, nil if there was none
}

// RunKey is the context key of the Run.
type RunKey struct{}

// runOf returns the record of the reconcile that ctx belongs to, or nil.
func runOf(ctx context.Context) *Run {
	run, _ := ctx.Value(RunKey{}).(*Run)
	return run
}

// Request is the text of the request.
func (r *Run) Request() string {
	if r.other != nil {
		return fmt.Sprint(r.other)
	}
	return NameText(r.Name)
}

// NameText returns a name as it is written in the console: namespace/name, or name alone.
func NameText(name types.NamespacedName) string {
	if name.Namespace == "" {
		return name.Name
	}
	return name.Namespace + "/" + name.Name
}

// Copy is a copy of a Run at one moment.
type Copy struct {
	*Run
	Outcome
	Reads   []Read
	Writes  []Write
	Lines   []Line
	Dropped [3]int // reads, writes and lines that were not recorded
}

// Copy returns what the record has now.
func (r *Run) Copy() Copy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Copy{
		Run: r, Outcome: r.outcome, Dropped: r.dropped,
		Reads: r.reads[:len(r.reads):len(r.reads)], Writes: r.writes[:len(r.writes):len(r.writes)],
		Lines: r.lines[:len(r.lines):len(r.lines)],
	}
}

func (r *Run) addRead(read Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reads) == maxReads {
		r.dropped[0]++
		return
	}
	r.reads = append(r.reads, read)
}

func (r *Run) addWrite(write Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.writes) == maxWrites {
		r.dropped[1]++
		return
	}
	r.writes = append(r.writes, write)
}

func (r *Run) addLine(line Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == maxLines {
		r.dropped[2]++
		return
	}
	r.lines = append(r.lines, line)
}

// size is about how many bytes the record takes. The caller holds mu.
func (r *Run) size() int {
	n := 512 + len(r.outcome.Err) + 176*len(r.Causes.List) + int(readSize)*cap(r.reads) + int(writeSize)*cap(r.writes)
	for i := range r.writes {
		w := &r.writes[i]
		n += len(w.Err)
		for _, s := range []State{w.Before, w.After} {
			if s != nil {
				n += s.Size()
			}
		}
	}
	for i := range r.lines {
		n += 64 + len(r.lines[i].Message) + len(r.lines[i].Values)
	}
	return n
}

var readSize, writeSize = reflect.TypeFor[Read]().Size(), reflect.TypeFor[Write]().Size()
