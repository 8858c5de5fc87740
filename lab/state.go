package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/internal/canonical"
	"flyball.dev/storage"
)

// isState reports whether a key of the storage belongs to the state of the cluster. Ballast does not.
func isState(key string) bool {
	return canonical.IsState(key) && !strings.HasPrefix(key, "/registry/pods/"+metav1.NamespacePublic+"/"+ballastName)
}

// decode decodes a stored object.
func decode(value []byte) (map[string]any, error) { return canonical.Decode(value) }

// observe reads what the server has stored since the last call, and adds it to the last event of the trace. It reports
// whether that lets a watch of a controller go on.
func (w *world) observe() (released bool) {
	stored, _, err := w.watcher.Next()
	if err != nil {
		w.find(labFailed, "reading the history of the storage: %v", err)
		return false
	}
	state := false
	for _, e := range stored {
		released = w.resources.add(e.Record.Key) || released
		if !isState(e.Record.Key) || w.locks.isLock(e.Record.Key, e.Record.Value()) {
			continue
		}
		state = true
		if len(w.trace) == 0 {
			w.trace = append(w.trace, event{text: "begin"})
		}
		c := change{kind: e.Type, key: e.Record.Key, after: e.Record.Value()}
		if e.Prev != nil {
			c.before = e.Prev.Value()
		}
		if e.Type == storage.Deleted {
			c.before, c.after = e.Record.Value(), nil
		}
		last := &w.trace[len(w.trace)-1]
		last.changes = append(last.changes, c)
		w.keep(&c)
		w.matchChange(&c)
		w.checkWrite(&c)
	}
	if state {
		w.lastChange = w.now()
		w.endLoops()
		w.checkInvariants(false)
	}
	return released
}

// State is the state of the cluster at one moment.
type State struct {
	objects map[string]*unstructured.Unstructured // by key in the storage
}

// All returns the objects of a kind in the order of their keys. A kind is named as in kubectl: deployments.apps or pods
// by their kind and group, such as "Pod" or "Deployment.apps". The objects must not be changed.
func (s *State) All(kind string) (all []*unstructured.Unstructured) {
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if o := s.objects[key]; kindOf(o) == kind {
			all = append(all, o)
		}
	}
	return all
}

// Get returns an object, or nil.
func (s *State) Get(kind, namespace, name string) *unstructured.Unstructured {
	for _, o := range s.objects {
		if o.GetName() == name && o.GetNamespace() == namespace && kindOf(o) == kind {
			return o
		}
	}
	return nil
}

// kindOf returns the kind and group of an object.
func kindOf(o *unstructured.Unstructured) string { return canonical.Kind(o) }

// state returns the objects that this run has written, as they are after the last change that the lab has observed.
func (w *world) state() (*State, error) {
	for key, value := range w.stored {
		if w.decoded[key] != nil {
			continue
		}
		object, err := decode(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		w.decoded[key] = &unstructured.Unstructured{Object: object}
	}
	return &State{objects: maps.Clone(w.decoded)}, nil
}

// keep updates what state returns.
func (w *world) keep(c *change) {
	delete(w.decoded, c.key)
	if c.after == nil {
		delete(w.stored, c.key)
		return
	}
	w.stored[c.key] = c.after
}

// The canonical form of a state, and what compares two of them.
type (
	outcome    = canonical.Outcome
	fields     = canonical.Fields
	noise      = canonical.Noise
	difference = canonical.Difference
)

// outcomeOf returns the canonical form of a state.
func (w *world) outcomeOf(s *State) outcome {
	c := newCanonical(s, w.names)
	o := outcome{}
	for _, object := range s.objects {
		key := c.Key(object)
		o[key] = append(o[key], c.Fields(object))
	}
	for _, all := range o {
		slices.SortFunc(all, func(a, b fields) int { return strings.Compare(a.Text(), b.Text()) })
	}
	return o
}

// newCanonical returns the canonical form of the objects of a state.
func newCanonical(s *State, n *names) *canonical.Form {
	c := canonical.New(maps.Values(s.objects), n.replacements())
	c.Ignored = editAnnotation
	return c
}

// age is a duration as a person reads it.
func age(d time.Duration) string { return d.Round(time.Millisecond).String() }
