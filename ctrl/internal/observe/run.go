// Package observe records what the controllers of a manager do: each reconcile with its causes, reads, writes and log
// lines. Package console shows the records.
//
// A manager without a console has no [Recorder], and then nothing here is called. With one, a write costs two references
// to packed objects of the cache: differences between objects are computed when somebody looks at them. Log lines are
// formatted at once, since their values may change. The memory is bounded: the oldest records, of the controller with the
// most, are packed, and later forgotten. A packed record has causes, outcome and writes, but no objects, reads or log lines.
//
// # Concurrency
//
// All methods are safe for concurrent use. A [Run] is changed while its reconcile runs; readers get copies.
package observe

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/memsize"
)

// The bounds of one record.
const (
	maxReads  = 128
	maxWrites = 256
	maxLines  = 128
)

// MaxState is the size up to which a State counts: no record has larger ones.
const MaxState = 1 << 20

// maxRun is how many bytes the objects of one record take at most.
const maxRun = MaxState

// State is an object as it was at one moment.
type State interface {
	// Object returns a copy of the object.
	Object() client.Object
	// UID is the UID of the object.
	UID() types.UID
	// Size is about how many bytes it takes, or a number above MaxState.
	Size() int
}

// Run is the record of one reconcile.
type Run struct {
	ID         uint64
	Controller string
	Name       types.NamespacedName // the request, if it is a reconcile.Request
	other      any                  // the request, if it is no reconcile.Request
	Causes     cause.Causes
	Priority   int
	Started    time.Time
	// Packed is whether the record has only causes, outcome, and writes without objects.
	Packed bool

	mu      sync.Mutex // guards what follows
	outcome Outcome
	entries
	kept int // bytes of the reads, writes and lines without the slices themselves
	// otherSize is the size of other when the reconcile ended. Later, another worker may change what a pointer in it points to.
	otherSize int
	// dropped are the reads, writes and lines above the bounds, and unrecorded are the writes.
	dropped    [3]int
	unrecorded Reach
}

// entries are the entries of a record.
type entries struct {
	reads  []Read
	writes []Write
	lines  []Line
}

// clone returns a copy that shares nothing with e.
func (e *entries) clone() entries {
	return entries{slices.Clone(e.reads), slices.Clone(e.writes), slices.Clone(e.lines)}
}

// trim moves the entries to slices of their number, and returns the slices that they were in, without them.
func (e *entries) trim() (before entries) {
	before, *e = *e, e.clone()
	clear(before.reads)
	clear(before.writes)
	clear(before.lines)
	return entries{before.reads[:0], before.writes[:0], before.lines[:0]}
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
	Guessed     bool   // whether the UID is the cache's, as the writer gave none
	Version     string // after the write, if it is known
	Was         string // the version in the cache before
	DryRun      bool
	Took        time.Duration
	Err         string

	// Before and After are the object before and after the write. They are nil if the object is not known, if it is Large, that is
	// too large to be recorded, or if the record is Packed.
	Before, After State
	Large, Packed bool
}

// Deletes reports whether the write deletes.
func (w *Write) Deletes() bool {
	return w.SubResource == "" && (w.Verb == "delete" || w.Verb == "deletecollection")
}

// size is about how many bytes a write takes beside the struct.
func (w *Write) size() int {
	n := len(w.Verb) + len(w.SubResource) + nameSize(w.Key) + len(w.UID) + len(w.Version) + len(w.Was) + len(w.Err)
	for _, s := range []State{w.Before, w.After} {
		if s != nil {
			n += s.Size()
		}
	}
	return n
}

func nameSize(name types.NamespacedName) int { return len(name.Namespace) + len(name.Name) }

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
		return RequestText(r.other)
	}
	return NameText(r.Name)
}

// RequestText returns the text of a request that is no reconcile.Request. A pointer without a String method has its address: what it
// points to belongs to the reconciler, and two requests that point to the same are two.
func RequestText(request any) string {
	if _, ok := request.(fmt.Stringer); !ok && request != nil && reflect.TypeOf(request).Kind() == reflect.Pointer {
		return fmt.Sprintf("%T(%p)", request, request)
	}
	return fmt.Sprint(request)
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
	// Unrecorded are the writes that were not recorded.
	Unrecorded Reach
}

// Copy returns what the record has now.
func (r *Run) Copy() Copy {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.entries
	if !r.outcome.Ended { // the worker uses the slices again
		all = all.clone()
	}
	return Copy{
		Run: r, Outcome: r.outcome, Dropped: r.dropped, Unrecorded: r.unrecorded.clone(),
		Reads: slices.Clip(all.reads), Writes: slices.Clip(all.writes), Lines: slices.Clip(all.lines),
	}
}

// The kinds of entries of a record, as indices of dropped.
const (
	aRead = iota
	aWrite
	aLine
)

// full reports whether there is no place for an entry. The caller holds mu.
func (r *Run) full(kind int) bool {
	if r.outcome.Ended {
		return true // a goroutine has outlived its reconcile
	}
	return [...]bool{len(r.reads) == maxReads, len(r.writes) == maxWrites, len(r.lines) == maxLines}[kind]
}

// isFull reports whether there is no place for an entry.
func (r *Run) isFull(kind int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full(kind)
}

// drop counts an entry if there is no place for it. It returns true then, so that nobody formats it.
func (r *Run) drop(kind int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full(kind) {
		r.dropped[kind]++
		return true
	}
	return false
}

func (r *Run) addRead(read Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full(aRead) {
		r.dropped[aRead]++
		return
	}
	r.kept += nameSize(read.Key) + len(read.Version) + len(read.Err) + len(read.Selection)
	r.reads = append(r.reads, read)
}

// addWrite adds a copy of a write.
func (r *Run) addWrite(write *Write) {
	size := write.size()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full(aWrite) {
		r.dropped[aWrite]++
		r.unrecorded.add(write)
		return
	}
	if r.kept+size > maxRun && (write.Before != nil || write.After != nil) {
		write.Before, write.After, write.Large = nil, nil, true
		size = write.size()
	}
	r.kept += size
	r.writes = append(r.writes, *write)
}

func (r *Run) addLine(line Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full(aLine) {
		r.dropped[aLine]++
		return
	}
	r.kept += len(line.Message) + len(line.Values)
	r.lines = append(r.lines, line)
}

// size is about how many bytes the record takes, when the reconcile ends. The caller holds mu.
func (r *Run) size() int {
	r.otherSize = memsize.Of(r.other, maxRun)
	n := runSize + r.kept + len(r.outcome.Err) + nameSize(r.Name) + r.otherSize +
		causeSize*cap(r.Causes.List) + readSize*cap(r.reads) + writeSize*cap(r.writes) + lineSize*cap(r.lines)
	for i := range r.Causes.List {
		c := &r.Causes.List[i]
		n += nameSize(c.Object) + len(c.UID) + len(c.GVK.Group) + len(c.GVK.Version) + len(c.GVK.Kind) + len(c.ResourceVersion) + len(c.Changed)
	}
	return n
}

var (
	// The causes may be in a block of their own, with its first cause.
	runSize   = int(reflect.TypeFor[Run]().Size()) + 256
	causeSize = int(reflect.TypeFor[cause.Cause]().Size())
	readSize  = int(reflect.TypeFor[Read]().Size())
	writeSize = int(reflect.TypeFor[Write]().Size())
	lineSize  = int(reflect.TypeFor[Line]().Size())
)
