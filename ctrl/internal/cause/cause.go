// Package cause describes why a request is queued: the event and its object, or the outcome of
// the previous reconcile. Package reconcile has its types under their public names.
//
// Causes are created for every event, so they are plain values; they are formatted only when they
// are logged or otherwise read.
//
// A source passes to each event's handler a queue that records the cause.
package cause

import (
	"context"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/internal/reflectutil"
)

// Kind is the kind of a cause.
type Kind uint8

// The kinds of causes: an addition without a cause, then the events of sources, then the outcomes of
// the previous reconcile, then an act of a person.
const (
	Added Kind = iota
	Listed
	Created
	Updated
	Deleted
	Generic
	Resync
	Requeue
	RequeueAfter
	Retry
	Conflict
	Manual

	// Kinds is the number of kinds.
	Kinds
)

var kindNames = [Kinds]string{"added", "listed", "created", "updated", "deleted", "generic", "resync",
	"requeue", "requeue-after", "retry", "conflict", "manual"}

// String returns the name of the kind, as in the labels of metrics.
func (k Kind) String() string {
	if k < Kinds {
		return kindNames[k]
	}
	return "cause " + strconv.Itoa(int(k))
}

// OfUpdate returns the kind of cause that an update is: Resync if both objects have the same
// resource version.
func OfUpdate(before, after any) Kind {
	a, okA := before.(interface{ GetResourceVersion() string })
	b, okB := after.(interface{ GetResourceVersion() string })
	if !okA || !okB || reflectutil.IsNil(before) || reflectutil.IsNil(after) {
		return Updated
	}
	if a.GetResourceVersion() == b.GetResourceVersion() {
		return Resync
	}
	return Updated
}

// Cause is one reason to reconcile.
type Cause struct {
	Kind Kind

	// Object is the object of the event, if any. It need not be the object to reconcile.
	Object          types.NamespacedName
	UID             types.UID
	GVK             schema.GroupVersionKind
	ResourceVersion string

	// Changed lists the fields that an update changed. It is set only while the controller suspects
	// that the request is a hot loop.
	Changed string
}

// same reports whether o is an event of the same kind and object.
func (c *Cause) same(o *Cause) bool {
	return c.Kind == o.Kind && c.Object == o.Object && c.GVK == o.GVK
}

// String formats the cause: "updated Deployment.apps default/web at 1234".
func (c Cause) String() string {
	var b strings.Builder
	c.write(&b)
	return b.String()
}

func (c *Cause) write(b *strings.Builder) {
	b.WriteString(c.Kind.String())
	if c.Object.Name != "" {
		b.WriteByte(' ')
		if c.GVK.Kind != "" {
			b.WriteString(c.GVK.GroupKind().String())
			b.WriteByte(' ')
		}
		if c.Object.Namespace != "" {
			b.WriteString(c.Object.Namespace)
			b.WriteByte('/')
		}
		b.WriteString(c.Object.Name)
	}
	if c.ResourceVersion != "" {
		b.WriteString(" at ")
		b.WriteString(c.ResourceVersion)
	}
	if c.Changed != "" {
		b.WriteString(" (")
		b.WriteString(c.Changed)
		b.WriteByte(')')
	}
}

// object is the part of client.Object that Of reads.
type object interface {
	GetNamespace() string
	GetName() string
	GetResourceVersion() string
}

// Of returns the cause of an event of obj, which may be of any type but must not be nil.
func Of(kind Kind, obj any) Cause {
	c := Cause{Kind: kind}
	if o, ok := obj.(object); ok {
		c.Object = types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		c.ResourceVersion = o.GetResourceVersion()
	}
	if o, ok := obj.(interface{ GetUID() types.UID }); ok {
		c.UID = o.GetUID()
	}
	if o, ok := obj.(runtime.Object); ok {
		c.GVK = o.GetObjectKind().GroupVersionKind()
	}
	return c
}

// Max is the number of different causes that are recorded for a request.
const Max = 8

// Causes are the causes of one reconcile. The zero value has none.
type Causes struct {
	// List has the different causes in the order in which they were added. Of several events of one
	// kind and object it has the newest, and of more than eight different ones the first eight. It
	// must not be modified.
	List []Cause

	// Total is the number of times that the request was added.
	Total int

	// Waited is how long the request was ready before a worker took it, including the time for
	// which it was still being reconciled for earlier causes.
	Waited time.Duration
}

// Add adds a cause. The caller must own the list.
func (cs *Causes) Add(c Cause) {
	cs.Total++
	for i := range cs.List {
		if cs.List[i].same(&c) {
			cs.List[i] = c
			return
		}
	}
	if len(cs.List) < Max {
		cs.List = append(cs.List, c)
	}
}

// String formats the list and the total.
func (cs Causes) String() string {
	var b strings.Builder
	for i := range cs.List {
		if i > 0 {
			b.WriteString(", ")
		}
		cs.List[i].write(&b)
	}
	if cs.Total > len(cs.List) {
		b.WriteString(", ")
		b.WriteString(strconv.Itoa(cs.Total))
		b.WriteString(" times in all")
	}
	return b.String()
}

// MarshalLog implements logr.Marshaler, so that the causes are formatted only if they are logged.
func (cs Causes) MarshalLog() any { return cs.String() }

// Key is the context key of Causes.
type Key struct{}

// With returns a context with causes.
func With(ctx context.Context, causes Causes) context.Context {
	return context.WithValue(ctx, Key{}, causes)
}

// From returns the causes in ctx.
func From(ctx context.Context) Causes {
	causes, _ := ctx.Value(Key{}).(Causes)
	return causes
}
