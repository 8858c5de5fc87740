// Package cause says why a request is in line: which event of which object, or which outcome of the
// reconcile before. Package reconcile has its types under their public names.
//
// Causes are made on every event, so they are plain values, and text is made of them only when
// somebody reads it.
package cause

import (
	"context"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is the kind of a cause.
type Kind uint8

// The kinds of causes: whoever added the request did not say; what a source heard; what the
// reconcile before led to.
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

	// Kinds is how many there are.
	Kinds
)

var kindNames = [Kinds]string{"added", "listed", "created", "updated", "deleted", "generic", "resync",
	"requeue", "requeue-after", "retry", "conflict"}

// String returns the name of the kind, as metrics have it.
func (k Kind) String() string {
	if k < Kinds {
		return kindNames[k]
	}
	return "cause " + strconv.Itoa(int(k))
}

// Cause is one reason to reconcile.
type Cause struct {
	Kind Kind

	// Object is the object of the event, if there was one. It need not be the one to reconcile.
	Object          types.NamespacedName
	GVK             schema.GroupVersionKind
	ResourceVersion string

	// Changed names the fields that an update changed. It is filled in only while the controller
	// suspects that the request is a hot loop.
	Changed string
}

// same reports whether o happened to the same object.
func (c *Cause) same(o *Cause) bool {
	return c.Kind == o.Kind && c.Object == o.Object && c.GVK == o.GVK
}

// String is the cause for people: "updated Deployment.apps default/web at 1234".
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

// object is what is read of an object; every client.Object has it.
type object interface {
	GetNamespace() string
	GetName() string
	GetResourceVersion() string
}

// Of is the cause that an event of obj is. It may be anything but nil.
func Of(kind Kind, obj any) Cause {
	c := Cause{Kind: kind}
	if o, ok := obj.(object); ok {
		c.Object = types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		c.ResourceVersion = o.GetResourceVersion()
	}
	if o, ok := obj.(runtime.Object); ok {
		c.GVK = o.GetObjectKind().GroupVersionKind()
	}
	return c
}

// Max is how many different causes are kept for a request.
const Max = 8

// Causes is why a request is reconciled. The zero value says nothing.
type Causes struct {
	// List holds the different ones in the order in which they came. Of several events of one kind
	// and object there is only the newest, and of more than eight different ones only the first
	// eight. It must not be changed.
	List []Cause

	// Total is how many times the request was asked for.
	Total int

	// Waited is how long the request was ready before a worker took it, the time included in which
	// it was being reconciled for an earlier reason.
	Waited time.Duration
}

// Add adds a cause. The list is shared with nobody yet.
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

// String lists the causes for people.
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

// MarshalLog makes loggers write the causes only when they write at all.
func (cs Causes) MarshalLog() any { return cs.String() }

// Key is where a context has its Causes.
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
