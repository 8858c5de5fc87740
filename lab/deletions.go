package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// deletions counts how often the operator deleted the objects with a name that nobody generates.
type deletions map[deletion]int

// deletion names the object of a deletion by its kind and name, and the last step before.
type deletion struct {
	object string
	step   int
}

// atLeast raises the counts to the ones of another run.
func (d deletions) atLeast(other deletions) {
	for key, n := range other {
		d[key] = max(d[key], n)
	}
}

// countDeletion counts a write of the operator if it deletes an object with a name that no server has generated, at once or by
// a deletion timestamp. The pods of a StatefulSet have such names, although they have a generateName too.
func (w *world) countDeletion(a *action, c *change) {
	if !strings.HasPrefix(a.verb, "delete") {
		return
	}
	if object, err := decode(c.value()); err == nil {
		o := &unstructured.Unstructured{Object: object}
		name := o.GetNamespace() + "/" + o.GetName()
		isGenerated := w.names.canonical(a.resource, o.GetNamespace(), o.GetName()) != name
		if !isGenerated && (c.after == nil || o.GetDeletionTimestamp() != nil) && !w.isAbandoned(o) && !w.corrects(c) {
			w.deletions[deletion{kindOf(o) + " " + name, w.done}]++
		}
	}
}

// checkDeletions finds objects that the operator has deleted more often than in the clean runs: what they held is lost.
// It checks only runs in which nothing but the operator's view, or its process, was disturbed.
func (w *world) checkDeletions(known *knowledge) {
	if known == nil || w.finding != nil || slices.ContainsFunc(w.schedule, func(c Choice) bool { return !c.ofView() }) {
		return
	}
	wanted := known.countLasting(known.deletions)
	all := known.countLasting(w.deletions)
	for _, object := range slices.Sorted(maps.Keys(all)) {
		if n, want := all[object], wanted[object]; n > want {
			w.find(dataLoss, "the operator has deleted %s %s, in the clean run %s", strings.Replace(object, " /", " ", 1), times(n), times(want))
		}
	}
}

// countLasting counts the deletions of the objects that last, by object.
func (k *knowledge) countLasting(all deletions) map[string]int {
	counts := map[string]int{}
	for d, n := range all {
		if k.lasts(d) {
			counts[d.object] += n
		}
	}
	return counts
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
