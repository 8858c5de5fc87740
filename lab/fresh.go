package lab

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/internal/canonical"
)

// After a change of a custom resource, the operator must come to rest in the same state as after a creation of the changed object. One
// more clean run shows that state: in it, the user's create has the patch of the change.

// learnFresh learns the states at the rests of that run for the change of a schedule. It learns nothing if the run has a finding: the server
// refuses the object, or a later step does not fit. A schedule with other choices is not compared.
func (e *explorer) learnFresh(s Schedule) {
	if e.known == nil || e.program != nil || len(s) != 1 || s[0].Do != Change {
		return
	}
	key := s[0].creation()
	if _, learned := e.fresh[key]; learned {
		return
	}
	known := e.known
	e.known = nil // as in each clean run
	r := e.run(nil, clean{created: &s[0]})
	e.known = known
	e.fresh[key] = nil
	if r.finding == nil && r.world != nil && r.world.patched {
		e.fresh[key] = append(r.world.rests, r.state)
	}
}

// creation identifies the object that a change leaves.
func (c *Choice) creation() string { return c.Object + " " + string(c.Patch) }

// checkFresh compares the state at the rest after a change with the one after a creation. It finds nothing if the specs differ all the same,
// as after another step that changes the object. It finds nothing either if a Job or a Pod has ended, for no change undoes what is done. And
// it finds nothing if the change is in vain: a Pod is not ready, or a condition of the object says so. A rollout that does not get on keeps
// older Pods, and an operator keeps what it has, while a creation has nothing to keep.
func (w *world) checkFresh(c *Choice) {
	states, n := w.fresh[c.creation()], c.At.N
	last := len(states) - 1                        // the rest after the last step
	isKnown := n < len(w.known.rests) || n == last // at other rests the clean runs differ
	if w.finding != nil || len(w.schedule) != 1 || n > last || !isKnown || w.someFinished() {
		return
	}
	s, err := w.state()
	if err != nil {
		w.find(labFailed, "%v", err)
		return
	}
	got := w.outcomeOf(s)
	before := w.known.outcome
	if n < len(w.known.rests) {
		before = w.known.rests[n]
	}
	if hasUnreadyPod(got) || hasUnreadyPod(states[n]) || c.isInVain(before, got, states[n]) {
		return
	}
	differences := canonical.Compare(got, states[n], w.known.restNoise)
	if slices.ContainsFunc(differences, func(d difference) bool { return d.Object == c.Object && strings.HasPrefix(d.Path, "spec") }) {
		return
	}
	if differences = w.withoutHistory(differences, newCanonical(s, w.names), w.known.restNoise); len(differences) > 0 {
		w.find(convergence, "after the change of a user, and unlike after a creation of the same object: %s", list(differences))
	}
}

// hasUnreadyPod reports whether a state has a Pod that is not ready.
func hasUnreadyPod(o outcome) bool {
	for object, all := range o {
		isUnready := func(f fields) bool { return f["status.conditions[Ready].status"] != string(corev1.ConditionTrue) }
		if strings.HasPrefix(object, "Pod ") && slices.ContainsFunc(all, isUnready) {
			return true
		}
	}
	return false
}

// isInVain reports whether a condition of the changed object has another status than before, after the change as after the creation. Which
// status is the good one depends on the condition.
func (c *Choice) isInVain(before, changed, created outcome) bool {
	status := func(o outcome, path string) string {
		if len(o[c.Object]) == 0 {
			return ""
		}
		return o[c.Object][0][path]
	}
	for _, f := range created[c.Object] {
		for path, value := range f {
			isCondition := strings.HasPrefix(path, "status.conditions[") && strings.HasSuffix(path, "].status")
			if isCondition && value == status(changed, path) && value != status(before, path) {
				return true
			}
		}
	}
	return false
}

// someFinished reports whether a Job or a Pod has ended in the run.
func (w *world) someFinished() bool {
	ended := func(c change) bool {
		object, err := decode(c.value())
		return err == nil && hasFinished(&unstructured.Unstructured{Object: object})
	}
	return slices.ContainsFunc(w.trace, func(e event) bool { return slices.ContainsFunc(e.changes, ended) })
}

// RoundTrip implements http.RoundTripper. A create of the object of a change has its patch, if this is the run that shows what a creation
// gives.
func (u *users) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.created == nil || r.Method != http.MethodPost {
		return u.RoundTripper.RoundTrip(r)
	}
	content, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if patched := u.created.patchCreate(content); patched != nil {
		u.patched = true
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(patched)), int64(len(patched))
	}
	return u.RoundTripper.RoundTrip(r)
}

// patchCreate returns the body of a create of the choice's object, with the patch of the choice, or nil if it creates another one.
func (c *Choice) patchCreate(content []byte) []byte {
	o := &unstructured.Unstructured{}
	if json.Unmarshal(content, &o.Object) != nil || describeCanonical(o) != c.Object {
		return nil // another encoding than JSON is not one of a custom resource
	}
	patched, err := jsonpatch.MergePatch(content, c.Patch)
	if err != nil {
		return nil
	}
	return patched
}
