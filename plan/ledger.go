package plan

import (
	"context"
	"encoding/json"
	"sync"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"

	"flyball.dev/ctrl/reconcile"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// author says who has written: what the context of the request has when it reaches the storage.
type author struct {
	user, verb, auditID string
	because             reconcile.Causes
}

// admission is the verb of a write by which an admission plugin accounts for a request, such as the usage of a quota.
const admission = "admission"

// authorOf returns the author of a write. A write without a request is one of the API server itself.
func authorOf(ctx context.Context) author {
	a := author{because: reconcile.CausesFrom(ctx)}
	if u, ok := request.UserFrom(ctx); ok {
		a.user = u.GetName()
	}
	if info, ok := request.RequestInfoFrom(ctx); ok && info.IsResourceRequest {
		a.verb = info.Verb
		if info.Subresource != "" {
			a.verb += " " + info.Subresource
		}
		if info.Verb == "get" || info.Verb == "list" {
			a.verb = admission
		}
	}
	a.auditID = audit.GetAuditIDTruncated(ctx)
	return a
}

// ledger is a storage that notes who has made each write.
type ledger struct {
	*memory.Store

	mu      sync.Mutex
	authors map[uint64]author // by revision
}

var (
	_ storage.Store    = (*ledger)(nil)
	_ storage.Indexer  = (*ledger)(nil)
	_ storage.Resetter = (*ledger)(nil)
)

func (l *ledger) note(revision uint64, a author) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.authors[revision] = a
}

func (l *ledger) author(revision uint64) author {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.authors[revision]
}

// Put implements storage.Store.
func (l *ledger) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	l.observe(&w, authorOf(ctx))
	return l.Store.Put(ctx, w)
}

// Delete implements storage.Store.
func (l *ledger) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	r, err := l.Store.Delete(ctx, key, revision)
	if err == nil {
		l.note(r.Revision, authorOf(ctx))
	}
	return r, err
}

// Commit implements storage.Store.
func (l *ledger) Commit(ctx context.Context, writes []storage.Write) ([]*storage.Record, error) {
	a := authorOf(ctx)
	for i := range writes {
		l.observe(&writes[i], a)
	}
	records, err := l.Store.Commit(ctx, writes)
	if err == nil && len(records) > 0 && records[0] != nil {
		l.note(records[0].Revision, a)
	}
	return records, err
}

// observe makes a write note its author before others see it.
func (l *ledger) observe(w *storage.Write, a author) {
	next := w.OnCommit
	w.OnCommit = func(r *storage.Record) {
		if next != nil {
			next(r)
		}
		l.note(r.Revision, a)
	}
}

// auditPolicy makes the API server record the writes, with their clients and results.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  nonResourceURLs: ["*"]
- level: Metadata
`

// auditTrail keeps the audit events of the writes. It is the writer of an audit log.
type auditTrail struct {
	mu      sync.Mutex
	clients map[string]string // by audit ID
	refused []refusedWrite
}

// refusedWrite is a write with an error, and the number of writes before it.
type refusedWrite struct {
	event auditv1.Event
	phase phase
}

// trail adds the phase of a world to the events of its API server.
type trail struct{ *world }

// Write implements io.Writer.
func (t trail) Write(line []byte) (int, error) {
	var e auditv1.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, err
	}
	now := phase(t.phase.Load())
	t.audit.mu.Lock()
	defer t.audit.mu.Unlock()
	t.audit.clients[string(e.AuditID)] = e.UserAgent
	if e.ResponseStatus != nil && e.ResponseStatus.Code >= 400 {
		t.audit.refused = append(t.audit.refused, refusedWrite{e, now})
	}
	return len(line), nil
}

func (t *auditTrail) client(id string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clients[id]
}
