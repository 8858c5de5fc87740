package robustness

import (
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/memory"
)

// persisted collects the requests that took place from a log, in their order. Leases are granted at the beginning, since
// nobody uses their IDs before.
type persisted struct {
	grants, rest []model.EtcdRequest
	// revision is the latest one, and modified has the revision of each key.
	revision int64
	modified map[string]int64
	// lease has the lease of each key that has one.
	lease map[string]int64
	// granted has the leases that there are.
	granted map[int64]bool
	// revoked has the leases that were revoked, if their keys have yet to be deleted.
	revoked map[int64]bool
}

func newPersisted() *persisted {
	return &persisted{revision: 1, modified: map[string]int64{}, lease: map[string]int64{}, granted: map[int64]bool{}, revoked: map[int64]bool{}}
}

func (p *persisted) requests() []model.EtcdRequest { return slices.Concat(p.grants, p.rest) }

func (p *persisted) grant(id int64) {
	p.granted[id] = true
	p.grants = append(p.grants, model.EtcdRequest{Type: model.LeaseGrant, LeaseGrant: &model.LeaseGrantRequest{LeaseID: id}})
}

// revoke deletes a lease with its keys.
func (p *persisted) revoke(id int64) {
	delete(p.granted, id)
	p.rest = append(p.rest, model.EtcdRequest{Type: model.LeaseRevoke, LeaseRevoke: &model.LeaseRevokeRequest{LeaseID: id}})
	keys := p.keysOf(id)
	if len(keys) > 0 {
		p.revision++
	}
	for _, key := range keys {
		delete(p.lease, key)
		delete(p.modified, key)
	}
}

func (p *persisted) keysOf(id int64) (keys []string) {
	for key, lease := range p.lease {
		if lease == id {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (p *persisted) compact(revision int64) {
	p.rest = append(p.rest, model.EtcdRequest{Type: model.Compact, Compact: &model.CompactRequest{Revision: revision}})
}

// write is a transaction without conditions.
func (p *persisted) write(operations []model.EtcdOperation) {
	p.rest = append(p.rest, model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{OperationsOnSuccess: operations}})
	p.revision++
	for _, o := range operations {
		if o.Type == model.DeleteOperation {
			delete(p.lease, o.Delete.Key)
			delete(p.modified, o.Delete.Key)
			continue
		}
		p.modified[o.Put.Key] = p.revision
		if delete(p.lease, o.Put.Key); o.Put.LeaseID != 0 {
			p.lease[o.Put.Key] = o.Put.LeaseID
		}
	}
}

func put(key, value string, lease int64) model.EtcdOperation {
	return model.EtcdOperation{Type: model.PutOperation, Put: model.PutOptions{Key: key, Value: model.ToValueOrHash(value), LeaseID: lease}}
}

func remove(key string) model.EtcdOperation {
	return model.EtcdOperation{Type: model.DeleteOperation, Delete: model.DeleteOptions{Key: key}}
}

// fromLog reads the log of a data directory.
func fromLog(t testing.TB, dir string) []model.EtcdRequest {
	t.Helper()
	p := newPersisted()
	if err := datadir.ReadLog(dir, logReader{p}); err != nil {
		t.Fatal(err)
	}
	return p.requests()
}

// logReader is a [datadir.LogReader].
type logReader struct{ *persisted }

// Leases implements [datadir.LogReader]. Each file of the log begins with all leases, which others have granted.
func (r logReader) Leases(all bool, leases []memory.LeaseChange) {
	if all {
		return
	}
	for _, l := range leases {
		if l.TTL > 0 {
			r.grant(l.ID)
		} else {
			r.revoked[l.ID] = true // its keys are deleted in a transaction that follows
		}
	}
}

// Compact implements [datadir.LogReader]. The server keeps a revision more than the client asks for.
func (r logReader) Compact(revision uint64) error {
	r.compact(int64(revision) + 1)
	return nil
}

// ClockSet implements [datadir.LogReader].
func (logReader) ClockSet(time.Duration) {}

// Transaction implements [datadir.LogReader].
func (r logReader) Transaction(_ uint64, writes []storage.Write) error {
	if id, ok := r.revocation(writes); ok {
		delete(r.revoked, id)
		r.revoke(id)
		return nil
	}
	var operations []model.EtcdOperation
	for _, w := range writes {
		if w.Delete {
			operations = append(operations, remove(w.Key))
		} else {
			operations = append(operations, put(w.Key, string(w.Value), w.Lease))
		}
	}
	r.write(operations)
	return nil
}

// revocation returns the lease that was revoked with all its keys by writes, if they are a revocation.
func (r logReader) revocation(writes []storage.Write) (int64, bool) {
	var keys []string
	for _, w := range writes {
		if !w.Delete {
			return 0, false
		}
		keys = append(keys, w.Key)
	}
	for id := range r.revoked {
		if slices.Equal(r.keysOf(id), keys) {
			return id, true
		}
	}
	return 0, false
}

// fromWAL reads the logs of the members of an etcd cluster: of the one that knows most that was committed.
func fromWAL(t testing.TB, dirs []string) []model.EtcdRequest {
	t.Helper()
	var committed []*raftpb.Entry
	for _, dir := range dirs {
		state, entries, err := report.ReadWAL(zap.NewNop(), dir)
		if err != nil {
			t.Fatal(err)
		}
		n := slices.IndexFunc(entries, func(e *raftpb.Entry) bool { return e.GetIndex() > state.GetCommit() })
		if n < 0 {
			n = len(entries)
		}
		if n > len(committed) {
			committed = entries[:n]
		}
	}
	p := newPersisted()
	for _, e := range committed {
		if e.GetType() != raftpb.EntryNormal || len(e.Data) == 0 {
			continue
		}
		var r etcdserverpb.InternalRaftRequest
		if err := proto.Unmarshal(e.Data, &r); err != nil {
			t.Fatal(err)
		}
		p.apply(t, &r)
	}
	return p.requests()
}

// apply adds a request of our store to etcd.
func (p *persisted) apply(t testing.TB, r *etcdserverpb.InternalRaftRequest) {
	t.Helper()
	switch {
	case r.Txn != nil:
		if p.holds(t, r.Txn.Compare) && p.hasLeases(r.Txn.Success) {
			var operations []model.EtcdOperation
			for _, op := range r.Txn.Success {
				if o := op.GetRequestPut(); o != nil {
					operations = append(operations, put(string(o.Key), string(o.Value), o.Lease))
				} else {
					operations = append(operations, remove(string(op.GetRequestDeleteRange().Key)))
				}
			}
			p.write(operations)
		}
	case r.LeaseGrant != nil:
		p.grant(r.LeaseGrant.ID)
	case r.LeaseRevoke != nil:
		p.revoke(r.LeaseRevoke.ID)
	case r.Compaction != nil:
		p.compact(r.Compaction.Revision)
	case r.Put != nil, r.DeleteRange != nil:
		t.Fatalf("our store does not send %v", r)
	}
}

// hasLeases reports whether there are the leases of operations.
func (p *persisted) hasLeases(operations []*etcdserverpb.RequestOp) bool {
	return !slices.ContainsFunc(operations, func(op *etcdserverpb.RequestOp) bool {
		id := op.GetRequestPut().GetLease()
		return id != 0 && !p.granted[id]
	})
}

// holds reports whether the condition of a transaction holds: each key is at a revision.
func (p *persisted) holds(t testing.TB, compares []*etcdserverpb.Compare) bool {
	t.Helper()
	for _, c := range compares {
		if c.Target != etcdserverpb.Compare_MOD || c.Result != etcdserverpb.Compare_EQUAL || len(c.RangeEnd) > 0 {
			t.Fatalf("the condition %v is not known", c)
		}
		if p.modified[string(c.Key)] != c.GetModRevision() {
			return false
		}
	}
	return true
}
