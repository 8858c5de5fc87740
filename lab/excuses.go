package lab

import (
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/internal/canonical"
	"flyball.dev/storage"
)

// This file has the excuses: the differences between a run and the clean ones that are no mistake of the operator.
//
//   - Nobody needs to create a Job or a Pod again that had ended (mayBeGone, hasFinished), nor what the operator had let go of (noteRelease).
//   - What somebody else has done leaves traces until the next step, such as a number of restarts (withoutTraces, hasReacted).
//   - The cluster's controllers keep a history, such as the revisions of a Deployment (withoutHistory).
//   - The operator may delete what the garbage collector deletes too (isAbandoned), what a clean run ends without (lasts), and an object
//     that it has created from an old view, if a clean run has another object with that name, or none (corrects).
//   - An operator that waits for the end of a back-off has not forgotten its work (patience).
//
// Others are beside the only code that needs them, such as: the operator may adopt an object without a controller (checkWrite), a change
// may be in vain (checkFresh), and no operator creates an object again that it has never seen (hidesLife).

// mayBeGone reports whether nobody needs to create an object again: the object had finished, or the operator had let go
// of the object, when somebody else deleted it, and in a clean run no later step changes it before the rest with an outcome.
func (w *world) mayBeGone(object string, rest outcome, n noise) bool {
	for finished, step := range w.finished {
		if n.Key(finished) != object {
			continue
		}
		if step >= len(w.known.rests) || len(canonical.Compare(only(object, w.known.rests[step], n), only(object, rest, n), n)) == 0 {
			return true
		}
	}
	return false
}

// only returns the part of an outcome that the noise gives the key of an object.
func only(object string, o outcome, n noise) outcome {
	o = maps.Clone(o)
	maps.DeleteFunc(o, func(key string, _ []fields) bool { return n.Key(key) != object })
	return o
}

// hasFinished reports whether an object is a Job or a Pod that has ended.
func hasFinished(o *unstructured.Unstructured) bool {
	switch kindOf(o) {
	case "Pod":
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		return phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
	case "Job.batch":
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			ended := condition["type"] == string(batchv1.JobComplete) || condition["type"] == string(batchv1.JobFailed)
			return ended && condition["status"] == string(corev1.ConditionTrue)
		})
	}
	return false
}

// withoutTraces leaves out the differences that come from changes of somebody else. Two kinds remain. An operator that does nothing
// about an object that is gone has not noticed, unless nobody needs to create the object again. And an object that the operator has created again must be
// as the operator kept it before.
func (w *world) withoutTraces(all []difference, c *canonical.Form) []difference {
	all = slices.DeleteFunc(all, func(d difference) bool {
		if d.Path == "" {
			return d.Got != canonical.Count(0) || w.mayBeGone(d.Object, w.known.rests[w.done], w.known.restNoise) || w.hasReacted()
		}
		return !w.deleted[d.Object] || strings.HasPrefix(d.Path, "status.")
	})
	if len(all) == 0 {
		return nil
	}
	return w.withoutHistory(all, c, w.known.restNoise)
}

// hasReacted reports whether the operator has changed anything since somebody else has, or called an external system.
func (w *world) hasReacted() bool {
	return slices.ContainsFunc(w.trace[w.disturbed:], func(e event) bool {
		return e.action != nil && !e.action.process.cluster && (len(e.changes) > 0 || e.action.verb == call)
	})
}

// withoutHistory leaves out the differences in what the cluster's controllers have written. After a change and back, they
// keep what was in between, such as the revisions of a Deployment, and a Deployment that is created again has no earlier ones.
func (w *world) withoutHistory(all []difference, c *canonical.Form, n noise) []difference {
	made, written := map[string]bool{}, map[string]bool{}
	for _, ev := range w.trace {
		if ev.action == nil || !ev.action.process.cluster {
			continue
		}
		for _, change := range ev.changes {
			object, err := decode(change.value())
			if err != nil {
				continue
			}
			o := &unstructured.Unstructured{Object: object}
			key := n.Key(c.Key(o))
			made[key] = made[key] || change.kind == storage.Created
			before, err := decode(change.before)
			if change.kind != storage.Modified || err != nil {
				continue
			}
			for _, d := range canonical.CompareFields(key, c.Fields(o), c.Fields(&unstructured.Unstructured{Object: before}), nil) {
				written[key+" "+d.Path] = true
			}
		}
	}
	return slices.DeleteFunc(all, func(d difference) bool { return made[d.Object] || written[d.Object+" "+d.Path] })
}

// isAbandoned reports whether the controller of an object is gone or going. Then the garbage collector deletes the object
// too, and it does not matter who is first.
func (w *world) isAbandoned(o *unstructured.Unstructured) bool {
	ref := metav1.GetControllerOf(o)
	if ref == nil {
		return false
	}
	s, err := w.state()
	if err != nil {
		return false
	}
	for _, owner := range s.objects {
		if owner.GetUID() == ref.UID {
			return owner.GetDeletionTimestamp() != nil
		}
	}
	return !isOlder(*ref)
}

// lasts reports whether a clean run has the object of a deletion at the next rest. Without the object there, a process that has started
// on an old view may have made the object again, and deletes the object when the view goes on. The rests lack the ones at which two clean
// runs have other objects. Before such a rest an object lasts, for no clean run says otherwise. An object with a random name does not last:
// the operator may keep another one instead, as with a name that the server generates.
func (k *knowledge) lasts(d deletion) bool {
	rest, isKnown := k.restAfter(d.step)
	return !k.random[d.object] && (!isKnown || len(rest[d.object]) > 0)
}

// restAfter returns the state of a clean run at the rest after its first steps, unless two clean runs have other objects there.
func (k *knowledge) restAfter(steps int) (rest outcome, isKnown bool) {
	if steps < len(k.rests) {
		return k.rests[steps], true
	}
	return k.outcome, steps >= k.steps
}

// corrects reports whether a deletion takes back what the operator has made from an old view. A clean run has another object with the
// name, or none, at the rest after the deletion, and also at the rest after the creation.
func (w *world) corrects(deletion *change) bool {
	made, isHasty := w.hasty[uidOf(deletion.before)]
	if w.known == nil || !isHasty {
		return false
	}
	object, err := decode(deletion.before)
	s, errState := w.state()
	if err != nil || errState != nil {
		return false
	}
	o, c := &unstructured.Unstructured{Object: object}, newCanonical(s, w.names)
	return w.known.lacks(c.Key(o), c.Fields(o), made) && w.known.lacks(c.Key(o), c.Fields(o), w.done)
}

// lacks reports whether a clean run has another object with a key, or none, at the rest after its first steps. The cluster's controllers
// may not have written all their fields yet, so the object may have fewer fields than the one of the clean run.
func (k *knowledge) lacks(key string, object fields, steps int) bool {
	rest, isKnown := k.restAfter(steps)
	differences := canonical.Compare(outcome{key: {object}}, outcome{key: rest[key]}, k.restNoise)
	return isKnown && slices.ContainsFunc(differences, func(d difference) bool {
		return d.Path == "" || d.Got != "" && !strings.HasPrefix(d.Path, "status.")
	})
}

// longestBackoff is the longest back-off of a controller.
const longestBackoff = 1000 * time.Second

// patience is how long nothing must change until the world is at rest. The operator gets errors while an object of somebody else has the
// name of its own. Once that object is gone, only the end of a back-off may wake the operator.
func (w *world) patience() time.Duration {
	if w.program == nil && w.removedForeign && !w.hasReacted() {
		return max(w.horizon(), longestBackoff+time.Second)
	}
	return w.horizon()
}
