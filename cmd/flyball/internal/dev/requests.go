package dev

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// operatorUser is the user that sends the operator's requests.
const operatorUser = "flyball-dev-operator"

// auditPolicy selects the requests of the operator.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [` + operatorUser + `]
- level: None
`

// stale is the time after the start of the operator from which a first write is probably unrelated to the change. The build before the
// start takes as long as the machine lets it.
const stale = time.Minute

// requests follows the operator's requests in the audit log of the API server. It prints when the operator watches, and
// when it writes for the first time, which is the earliest sign of a reconcile from outside. It also prints requests
// that RBAC forbids.
type requests struct {
	lines chan string // lines to print; requests do not wait for it

	mu                sync.Mutex
	since, started    time.Time // of the edit, and of the operator
	watching, written bool
	forbidden         map[string]bool // the markers that were printed
}

// restart starts over for a new operator, which starts now. The printed times count from since, the time of an edit.
func (r *requests) restart(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.started, r.watching, r.written, r.forbidden = since, time.Now(), false, false, map[string]bool{}
}

// Write handles one event of the audit log.
func (r *requests) Write(line []byte) (int, error) {
	var event auditv1.Event
	if err := json.Unmarshal(line, &event); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	took := time.Since(r.since)
	switch {
	case event.ObjectRef == nil || event.ResponseStatus == nil || r.since.IsZero():
	case event.Annotations["authorization.k8s.io/decision"] == "forbid":
		r.forbid(event.Verb, event.ObjectRef)
	case event.ResponseStatus.Code >= 400 || isBookkeeping(event.ObjectRef):
	case event.Verb == "get" || event.Verb == "list":
	case event.Verb == "watch":
		if event.Stage == auditv1.StageResponseStarted && !r.watching {
			r.watching = true
			r.say("the operator watches %s: %s after the change", event.ObjectRef.Resource, seconds(took))
		}
	case event.Stage == auditv1.StageResponseComplete && !r.written:
		r.written = true
		if time.Since(r.started) > stale {
			return len(line), nil // somebody else has changed something since
		}
		r.say("first write: %s %s: %s after the change", event.Verb, name(event.ObjectRef), seconds(took))
	}
	return len(line), nil
}

// isBookkeeping reports whether operators write a resource independently of their reconciles.
func isBookkeeping(ref *auditv1.ObjectReference) bool {
	return ref.Resource == "leases" && ref.APIGroup == "coordination.k8s.io" || ref.Resource == "events"
}

// forbid prints, once, that RBAC forbids a request, and the marker that would allow it.
func (r *requests) forbid(verb string, ref *auditv1.ObjectReference) {
	resource := resource(ref)
	group, verbs := ref.APIGroup, verb
	if group == "" {
		group = "core"
	}
	if verb == "get" || verb == "list" || verb == "watch" {
		verbs = "get;list;watch" // a client with a cache needs all of them
	}
	marker := fmt.Sprintf("// +kubebuilder:rbac:groups=%s,resources=%s,verbs=%s", group, resource, verbs)
	const format = "the roles of the operator do not allow it to %s %s; this marker does: %s" +
		" (flyball vet -rbac -fix ./... adds all markers that the code needs)"
	if !r.forbidden[marker] && r.say(format, verb, resource, marker) {
		r.forbidden[marker] = true
	}
}

// say prints a line, or returns false if there are too many.
func (r *requests) say(format string, args ...any) bool {
	select {
	case r.lines <- fmt.Sprintf(format, args...):
		return true
	default:
		return false
	}
}

// resource returns a resource with its subresource in the format of roles.
func resource(ref *auditv1.ObjectReference) string {
	if ref.Subresource == "" {
		return ref.Resource
	}
	return ref.Resource + "/" + ref.Subresource
}

// name returns the name of a request's object in the format of kubectl.
func name(ref *auditv1.ObjectReference) string {
	resource := resource(ref)
	if ref.Namespace != "" {
		return fmt.Sprintf("%s %s/%s", resource, ref.Namespace, ref.Name)
	}
	return resource + " " + ref.Name
}

// seconds formats a duration.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
