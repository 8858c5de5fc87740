package console

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/observe"
)

// origins finds the reconcile that wrote a version of an object.
type origins struct {
	runs    []observe.Copy       // in the order of their starts
	sought  map[version]bool     // the versions of causes
	written map[version]change   // the sought ones
	deleted map[version][]change // by objects, or by namespaces if whole collections were deleted
	// unversioned are the objects with recorded writes of an unknown version.
	unversioned map[version]bool
	// reach says what the record lacks, and forgotten how many reconciles are not.
	reach     observe.Reach
	forgotten uint64
	// previous has the reconcile before of the same request, by the identifiers of the reconciles.
	previous map[uint64]*observe.Run
}

// version is a version of an object, or a whole object if it is empty.
type version struct {
	schema.GroupKind
	types.NamespacedName
	version string
}

// change is a write by a reconcile.
type change struct {
	run *observe.Run
	at  time.Time
	uid types.UID // of an object that was deleted; empty if it is not known
	// guessed is whether the UID is the cache's, which may have been behind.
	guessed bool
}

// Who wrote the version of a cause, if somebody did.
const (
	byReconcile = "reconcile"
	bySomebody  = "somebody else"
	byForgotten = "forgotten" // the record does not reach as far
	byUnknown   = "unknown"   // a recorded write may have done it
)

// origins returns the origins of the causes of all recorded reconciles, and of queued requests, as far as they are recorded. Of the
// writes it keeps only the origins: there are many more.
func (c *Console) origins(queued ...observe.Queued) *origins {
	o := &origins{
		sought: map[version]bool{}, written: map[version]change{}, deleted: map[version][]change{}, unversioned: map[version]bool{},
		previous: map[uint64]*observe.Run{},
	}
	type request struct{ controller, name string }
	last := map[request]*observe.Run{}
	add := func(run *observe.Run) {
		r := run.Copy()
		o.runs = append(o.runs, r)
		key := request{r.Controller, r.Request()}
		if before := last[key]; before != nil {
			o.previous[r.ID] = before
		}
		last[key] = run
		o.reach.Merge(r.Unrecorded)
		for i := range r.Writes {
			w := &r.Writes[i]
			v := version{w.Type.GVK.GroupKind(), w.Key, w.Version}
			switch {
			case w.Err != "" || w.DryRun || w.Version != "" && w.Was == w.Version: // nothing was written
			case w.Deletes():
				v.version = ""
				o.deleted[v] = append(o.deleted[v], change{run, run.Started.Add(w.At), w.UID, w.Guessed})
			case w.Version == "":
				o.unversioned[v] = true
			default:
				if _, ok := o.written[v]; o.sought[v] && !ok { // a write that changes nothing returns the version before
					o.written[v] = change{run: run, at: run.Started.Add(w.At)}
				}
			}
		}
	}
	runs := c.recorder.Runs()
	for _, controller := range c.recorder.Controllers() {
		runs = append(runs, controller.Active()...)
	}
	slices.SortFunc(runs, func(a, b *observe.Run) int { return cmp.Compare(a.ID, b.ID) })
	runs = slices.Compact(runs) // one may have ended in between
	for _, q := range queued {
		o.seek(q.Causes)
	}
	for _, run := range runs {
		o.seek(run.Causes)
	}
	o.runs = make([]observe.Copy, 0, len(runs))
	for _, run := range runs {
		add(run)
	}
	// What was forgotten meanwhile is in both.
	reach, forgotten := c.recorder.Forgotten()
	o.reach.Merge(reach)
	o.forgotten = forgotten
	return o
}

// seek adds the versions of causes to the sought ones.
func (o *origins) seek(causes cause.Causes) {
	for _, why := range causes.List {
		o.sought[version{why.GVK.GroupKind(), why.Object, why.ResourceVersion}] = true
	}
}

// of returns the reconcile that wrote the version of a cause, or that deleted the object, before a time, and who did. Nobody
// wrote anything for a request that was listed, say.
func (o *origins) of(why cause.Cause, before time.Time) (run *observe.Run, by string) {
	if o == nil || why.Object.Name == "" || why.Kind == cause.Listed || why.Kind == cause.Resync {
		return nil, ""
	}
	v := version{why.GVK.GroupKind(), why.Object, why.ResourceVersion}
	if w, ok := o.written[v]; ok && !w.at.After(before) {
		return w.run, byReconcile
	}
	sought := o.sought[v]
	v.version = ""
	switch why.Kind {
	case cause.Deleted:
		if run, by := o.deletedBy(v, why.UID, before); by != "" {
			return run, by
		}
	case cause.Created, cause.Updated:
	default:
		return nil, ""
	}
	switch {
	case o.unversioned[v] || !sought:
		return nil, byUnknown
	case o.reach.Forgot(v.GroupKind, why.ResourceVersion, why.Kind == cause.Deleted):
		return nil, byForgotten
	}
	return nil, bySomebody
}

// deletedBy returns the last reconcile that deleted an object with a UID before a time. If another deletion may have been of
// the object, it returns that this is not known.
func (o *origins) deletedBy(v version, uid types.UID, before time.Time) (run *observe.Run, by string) {
	for _, d := range o.deleted[v] {
		switch {
		case d.at.After(before):
		case d.uid == uid && uid != "":
			run, by = d.run, byReconcile
		case run == nil && (d.uid == "" || uid == "" || d.guessed):
			by = byUnknown
		}
	}
	for _, namespace := range []string{v.Namespace, ""} {
		for _, d := range o.deleted[version{v.GroupKind, types.NamespacedName{Namespace: namespace}, ""}] {
			if by == "" && !d.at.After(before) {
				by = byUnknown
			}
		}
	}
	return run, by
}

// before returns the reconcile that is the origin of a cause of run, or nil, and who wrote the version of the cause. The origin
// of a retry is the reconcile before.
func (o *origins) before(run observe.Copy, why cause.Cause) (origin *observe.Run, by string) {
	if o == nil {
		return nil, ""
	}
	if why.Kind == cause.Retry || why.Kind == cause.Conflict {
		if origin = o.previous[run.ID]; origin == nil {
			return nil, byForgotten
		}
		return origin, byReconcile
	}
	return o.of(why, run.Started)
}

// Chain has the reconciles and writes that a change has caused.
type Chain struct {
	// Root is the change, by a reconcile or by somebody else.
	Root Cause `json:"root"`
	// Steps are the reconciles that it caused, in the order of the graph: what a reconcile caused follows it.
	Steps []Step `json:"steps"`
	// More is how many reconciles are not shown, and Forgotten how many of all are not recorded any more.
	More      int    `json:"more,omitempty"`
	Forgotten uint64 `json:"forgotten,omitempty"`
}

// Step is a reconcile of a chain.
type Step struct {
	Reconcile Reconcile `json:"reconcile"`
	// After is the time since the first reconcile of the chain.
	After Seconds `json:"afterSeconds"`
	// By is the reconcile that caused it, 0 for the first ones.
	By uint64 `json:"by"`
	// Via is the cause by which it did.
	Via   Cause `json:"via"`
	Depth int   `json:"depth"`
}

// ByTime returns the steps in the order of their starts.
func (c Chain) ByTime() []Step {
	return slices.SortedStableFunc(slices.Values(c.Steps), func(a, b Step) int { return cmp.Compare(a.Reconcile.ID, b.Reconcile.ID) })
}

// chain returns the chain that a reconcile is in.
func (c *Console) chain(id uint64) (Chain, bool) {
	o := c.origins()
	byID := map[uint64]observe.Copy{}
	for _, run := range o.runs {
		byID[run.ID] = run
	}
	run, ok := byID[id]
	if !ok {
		return Chain{}, false
	}
	// Up to the first reconcile that somebody else caused.
	seen := map[uint64]bool{}
	for !seen[run.ID] {
		seen[run.ID] = true
		for _, why := range run.Causes.List {
			if parent, _ := o.before(run, why); parent != nil && !seen[parent.ID] {
				run = byID[parent.ID]
				break
			}
		}
	}
	roots := []observe.Copy{run}
	chain := Chain{Forgotten: o.forgotten}
	if causes := c.summary(run, o).Causes; len(causes) > 0 {
		chain.Root = causes[0]
		roots = o.causedBy(run.Causes.List[0], run)
	}
	o.walk(c, &chain, roots)
	return chain, true
}

// causedBy returns the reconciles that the event of a cause has caused: run and others, in order.
func (o *origins) causedBy(why cause.Cause, run observe.Copy) (runs []observe.Copy) {
	if why.Object.Name == "" || why.ResourceVersion == "" {
		return []observe.Copy{run}
	}
	for _, other := range o.runs {
		if other.ID == run.ID || slices.ContainsFunc(other.Causes.List, func(c cause.Cause) bool {
			return c.Object == why.Object && c.GVK == why.GVK && c.ResourceVersion == why.ResourceVersion && c.Kind == why.Kind
		}) {
			runs = append(runs, other)
		}
	}
	return runs
}

// walk adds the roots, and all that they have caused, to a chain: depth first, each reconcile once.
func (o *origins) walk(c *Console, chain *Chain, roots []observe.Copy) {
	type effect struct {
		run observe.Copy
		via cause.Cause
	}
	effects := map[uint64][]effect{}
	for _, run := range o.runs {
		for _, why := range run.Causes.List {
			if origin, _ := o.before(run, why); origin != nil {
				effects[origin.ID] = append(effects[origin.ID], effect{run, why})
			}
		}
	}
	added := map[uint64]bool{}
	for _, root := range roots {
		added[root.ID] = true
	}
	var began time.Time
	var add func(run observe.Copy, by uint64, via Cause, depth int)
	add = func(run observe.Copy, by uint64, via Cause, depth int) {
		if began.IsZero() || run.Started.Before(began) {
			began = run.Started
		}
		if len(chain.Steps) < chainRows {
			chain.Steps = append(chain.Steps, Step{
				Reconcile: c.summary(run, o), After: seconds(run.Started.Sub(began)), By: by, Via: via, Depth: depth,
			})
		} else {
			chain.More++
		}
		for _, e := range effects[run.ID] {
			if !added[e.run.ID] {
				added[e.run.ID] = true
				add(e.run, run.ID, causeOf(e.via), depth+1)
			}
		}
	}
	for _, root := range roots {
		add(root, 0, chain.Root, 0)
	}
}
