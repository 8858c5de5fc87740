package dev

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// operatorUser is the user as which the operator sends requests.
const operatorUser = "flyball-dev-operator"

// auditPolicy selects the requests of the operator: what it starts to watch, and what it writes.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources:
  - group: coordination.k8s.io
  - group: events.k8s.io
  - resources: [events]
- level: Metadata
  users: [` + operatorUser + `]
  verbs: [watch, create, update, patch, delete, deletecollection]
- level: None
`

// stale is how long after a change the first write has hardly to do with it.
const stale = time.Minute

// requests follows what the operator does by the API server's audit log, and says when it watches,
// and when it first writes: the earliest that can be known of its reconciles from outside.
type requests struct {
	lines chan string // what is to be said; requests do not wait for it

	mu                sync.Mutex
	since             time.Time
	watching, written bool
}

// restart starts over for a new operator, with times since an edit.
func (r *requests) restart(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.watching, r.written = since, false, false
}

// Write takes an event of the audit log.
func (r *requests) Write(line []byte) (int, error) {
	var event auditv1.Event
	if err := json.Unmarshal(line, &event); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	took := time.Since(r.since)
	switch {
	case event.ObjectRef == nil || event.ResponseStatus == nil || event.ResponseStatus.Code >= 400 || r.since.IsZero():
	case event.Verb == "watch":
		if event.Stage == auditv1.StageResponseStarted && !r.watching {
			r.watching = true
			r.say("the operator watches %s: %s after the change", event.ObjectRef.Resource, seconds(took))
		}
	case event.Stage == auditv1.StageResponseComplete && !r.written:
		r.written = true
		if took > stale {
			return len(line), nil // somebody else has changed something since
		}
		r.say("first write: %s %s: %s after the change", event.Verb, name(event.ObjectRef), seconds(took))
	}
	return len(line), nil
}

// say hands over a line, or drops it if there are too many.
func (r *requests) say(format string, args ...any) {
	select {
	case r.lines <- fmt.Sprintf(format, args...):
	default:
	}
}

// name returns the name of what a request is about, as kubectl writes it.
func name(ref *auditv1.ObjectReference) string {
	resource := ref.Resource
	if ref.Subresource != "" {
		resource += "/" + ref.Subresource
	}
	if ref.Namespace != "" {
		return fmt.Sprintf("%s %s/%s", resource, ref.Namespace, ref.Name)
	}
	return resource + " " + ref.Name
}

// seconds formats a duration.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
