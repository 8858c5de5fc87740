package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"flyball.dev/internal/canonical"
)

// knowledge is what the clean runs show about an operator.
type knowledge struct {
	outcome outcome
	noise   noise
	// rests are the states before each step, and restNoise is the noise there.
	rests     []outcome
	restNoise noise
	// touched are the relations of the operator to the objects of others that it writes.
	touched map[string]bool
	actions int
	trace   []event
	names   *names // of the run with the trace
	// duration is the time of a clean run, and deletions are the objects that it deletes.
	duration  time.Duration
	deletions deletions
	// random are the objects that one clean run has and another one lacks: their names are random.
	random map[string]bool
	// steps is the number of steps. The rest after the last step is the outcome.
	steps int
}

// learnNames finds the names that are random, in the states of two clean runs at the same rest.
func (k *knowledge) learnNames(first, other outcome) {
	for object := range first {
		if len(other[object]) == 0 {
			k.random[object] = true
		}
	}
}

// checkWrite checks a write when the server has stored it.
func (w *world) checkWrite(c *change) {
	a := w.actor
	if a == nil || a.process.cluster || !a.isWrite() || a.isLease() || a.isRecord() {
		return
	}
	w.countDeletion(a, c)
	w.noteRelease(c)
	if c.before == nil {
		w.own[uidOf(c.after)] = true
		if a.process.old {
			w.hasty[uidOf(c.after)] = w.done
		}
		return
	}
	if w.own[uidOf(c.before)] {
		return
	}
	object, err := decode(c.before)
	if err != nil {
		return
	}
	o := &unstructured.Unstructured{Object: object}
	if w.foreign[string(o.GetUID())] && metav1.GetControllerOf(o) == nil {
		return // it has what the operator's own object had
	}
	relation := relationTo(o)
	if w.known == nil {
		w.touched[relation] = true
		return
	}
	// Fields of the operator in an object that it has not made are no new relation: the first write makes them.
	if !w.known.touched[relation] && !w.known.touched[strings.Replace(relation, withFields, withoutFields, 1)] {
		w.find(foreignObject, "%s changes an object of others: %s (%s)", a.process.name, describe(o), relation)
	}
}

// relationTo says to whom an object belongs that the operator has not made.
func relationTo(o *unstructured.Unstructured) string {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return kindOf(o) + " with the controller " + kindOfOwner(ref)
		}
	}
	shared := slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return strings.HasPrefix(m.Manager, "operator") })
	if shared {
		return kindOf(o) + withFields
	}
	return kindOf(o) + withoutFields
}

const (
	withFields    = " with fields of the operator"
	withoutFields = " without fields of the operator"
)

func describe(o *unstructured.Unstructured) string {
	return kindOf(o) + " " + klog.KObj(o).String()
}

func uidOf(value []byte) string { return metadataOf(value).UID }

// checkInvariants checks the invariants of the scenario.
func (w *world) checkInvariants(atRest bool) {
	if len(w.scenario.Invariants) == 0 || w.finding != nil {
		return
	}
	s, err := w.state()
	if err != nil {
		w.find(labFailed, "%v", err)
		return
	}
	for _, i := range w.scenario.Invariants {
		if i.AtRest && !atRest {
			continue
		}
		if err := i.Check(s); err != nil {
			w.find(invariant, "%s: %v", i.Name, err)
		}
	}
}

// checkEnd checks the state in which a run has come to rest.
func (w *world) checkEnd(known *knowledge) {
	if w.finding != nil {
		return
	}
	s, err := w.state()
	if err != nil {
		w.find(labFailed, "%v", err)
		return
	}
	for _, o := range s.objects {
		if at := o.GetDeletionTimestamp(); at != nil && len(o.GetFinalizers()) > 0 {
			w.find(stuckDeletion, "%s is being deleted and keeps the finalizers %s", describe(o), strings.Join(o.GetFinalizers(), ", "))
		}
	}
	w.checkOwners(s)
	if known == nil {
		w.checkGenerations(s)
		return
	}
	differences := slices.DeleteFunc(canonical.Compare(w.outcomeOf(s), known.outcome, known.noise), func(d difference) bool {
		return d.Path == "" && d.Got == canonical.Count(0) && w.mayBeGone(d.Object, known.outcome, known.noise)
	})
	if len(differences) > 0 && slices.ContainsFunc(w.schedule, func(c Choice) bool { return c.leavesHistory() }) {
		differences = w.withoutHistory(differences, newCanonical(s, w.names), known.noise)
	}
	if len(differences) == 0 {
		return
	}
	check := convergence
	if slices.ContainsFunc(differences, func(d difference) bool { return strings.HasSuffix(d.Path, "bservedGeneration") }) {
		check = statusTruth
	}
	w.find(check, "%s", list(differences))
}

// checkOwners finds objects with owners that do not exist.
func (w *world) checkOwners(s *State) {
	uids := map[string]bool{}
	for _, o := range s.objects {
		uids[string(o.GetUID())] = true
	}
	for _, o := range s.objects {
		refs := o.GetOwnerReferences()
		absent := !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return uids[string(r.UID)] || isOlder(r) })
		if len(refs) > 0 && absent {
			w.find(orphan, "%s has the owner %s %s, which does not exist", describe(o), kindOfOwner(refs[0]), refs[0].Name)
		}
	}
}

// isOlder reports whether an owner may have existed before the run: a Node or a Namespace of Kubernetes, and no custom resource with
// such a name.
func isOlder(r metav1.OwnerReference) bool {
	kind := kindOfOwner(r)
	return kind == "Node" || kind == "Namespace"
}

// kindOfOwner returns the kind and group of an owner, as kindOf does.
func kindOfOwner(r metav1.OwnerReference) string {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind().String()
}

// checkGenerations finds objects with a status of an earlier generation.
func (w *world) checkGenerations(s *State) {
	for _, o := range s.objects {
		observed, ok, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		if ok && observed != o.GetGeneration() {
			w.find(statusTruth, "%s has the generation %d, and its status is of generation %d", describe(o), o.GetGeneration(), observed)
		}
	}
}

// list names the first differences.
func list(all []difference) string {
	texts := make([]string, 0, 4)
	for i, d := range all {
		if i == 3 && len(all) > 4 {
			texts = append(texts, fmt.Sprintf("and %d more differences", len(all)-3))
			break
		}
		texts = append(texts, hidden(d.Kind(), d).String())
	}
	return strings.Join(texts, "\n")
}

// secondPass restarts all replicas at rest, and checks that they change nothing.
func (w *world) secondPass() {
	if w.finding != nil {
		return
	}
	begin := len(w.trace)
	w.over = begin
	w.trace = append(w.trace, event{at: w.now(), text: "the operator starts again, and has nothing to do"})
	w.restartAll()
	w.lastChange = w.now()
	w.run(nil)
	if w.finding == nil {
		w.checkUnchanged(begin)
	}
}
