package etcdserver

import (
	"bytes"
	"cmp"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"flyball.dev/storage"
)

// txn is a transaction in execution: the state of the store, and the writes so far.
type txn struct {
	view storage.View
	// begin is the latest revision before the transaction, and compacted the compact revision.
	begin, compacted int64

	writes []storage.Write
	// written has the pairs that were written by their keys, with nil for a deletion.
	written map[string]*mvccpb.KeyValue
}

func (s *Server) newTxn(v storage.View) *txn {
	latest, compacted := s.revisionsOf(v)
	return &txn{view: v, begin: latest, compacted: compacted, written: map[string]*mvccpb.KeyValue{}}
}

// revision returns the revision of the state with the writes.
func (t *txn) revision() int64 {
	if len(t.writes) > 0 {
		return t.begin + 1
	}
	return t.begin
}

func (t *txn) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{Revision: t.revision()}
}

// pairs returns the pairs that a query selects, with the writes, and the number of further pairs.
func (t *txn) pairs(q storage.Query) (kvs []*mvccpb.KeyValue, remaining int, err error) {
	if len(t.writes) == 0 || q.Revision != 0 && int64(q.Revision) <= t.begin {
		page, err := t.view.Range(q)
		return keyValues(page.Records), page.Remaining, err
	}
	limit := q.Limit
	q.Limit, q.Revision = 0, 0
	page, err := t.view.Range(q)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range page.Records {
		if _, ok := t.written[r.Key]; !ok {
			kvs = append(kvs, keyValue(r))
		}
	}
	for key, kv := range t.written {
		if kv != nil && q.Covers(key) {
			copied := mvccpb.KeyValue{Key: kv.Key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease}
			kvs = append(kvs, &copied)
		}
	}
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	if limit > 0 && len(kvs) > limit {
		kvs, remaining = kvs[:limit], len(kvs)-limit
	}
	return kvs, remaining, nil
}

// get returns the pair of a key, or nil.
func (t *txn) get(key []byte) (*mvccpb.KeyValue, error) {
	kvs, _, err := t.pairs(newInterval(key, nil).query(0))
	if len(kvs) == 0 {
		return nil, err
	}
	return kvs[0], nil
}

// choose returns the branches that the compares choose: of a transaction, then of the transactions inside the branch, in
// order. All compares read the state before the transaction.
func (t *txn) choose(r *etcdserverpb.TxnRequest) (path []bool, err error) {
	succeeded, err := t.holdAll(r.Compare)
	if err != nil {
		return nil, err
	}
	path = []bool{succeeded}
	for _, op := range branch(r, succeeded) {
		if inner := op.GetRequestTxn(); inner != nil {
			rest, err := t.choose(inner)
			if err != nil {
				return nil, err
			}
			path = append(path, rest...)
		}
	}
	return path, nil
}

func branch(r *etcdserverpb.TxnRequest, succeeded bool) []*etcdserverpb.RequestOp {
	if succeeded {
		return r.Success
	}
	return r.Failure
}

func (t *txn) holdAll(compares []*etcdserverpb.Compare) (bool, error) {
	for _, c := range compares {
		if ok, err := t.holds(c); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// holds reports whether a compare holds for all keys of its range. Without a key, it compares zero.
func (t *txn) holds(c *etcdserverpb.Compare) (bool, error) {
	kvs, _, err := t.pairs(newInterval(c.Key, c.RangeEnd).query(0))
	if err != nil {
		return false, err
	}
	if len(kvs) == 0 {
		return c.Target != etcdserverpb.Compare_VALUE && isResult(c, &mvccpb.KeyValue{}), nil
	}
	for _, kv := range kvs {
		if !isResult(c, kv) {
			return false, nil
		}
	}
	return true, nil
}

// isResult reports whether the comparison of a pair has the result that a compare wants.
func isResult(c *etcdserverpb.Compare, kv *mvccpb.KeyValue) bool {
	var result int
	switch c.Target {
	case etcdserverpb.Compare_VALUE:
		result = bytes.Compare(kv.Value, c.GetValue())
	case etcdserverpb.Compare_CREATE:
		result = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case etcdserverpb.Compare_MOD:
		result = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case etcdserverpb.Compare_VERSION:
		result = cmp.Compare(kv.Version, c.GetVersion())
	case etcdserverpb.Compare_LEASE:
		result = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case etcdserverpb.Compare_EQUAL:
		return result == 0
	case etcdserverpb.Compare_NOT_EQUAL:
		return result != 0
	case etcdserverpb.Compare_GREATER:
		return result > 0
	case etcdserverpb.Compare_LESS:
		return result < 0
	}
	return true
}

// check returns the error of the first operation that cannot be carried out in the state before the transaction. It
// returns the path of the transactions that follow.
func (t *txn) check(r *etcdserverpb.TxnRequest, path []bool) (rest []bool, err error) {
	rest = path[1:]
	for _, op := range branch(r, path[0]) {
		switch o := op.Request.(type) {
		case *etcdserverpb.RequestOp_RequestRange:
			err = t.checkRevision(o.RequestRange.Revision)
		case *etcdserverpb.RequestOp_RequestPut:
			err = t.checkPut(o.RequestPut)
		case *etcdserverpb.RequestOp_RequestTxn:
			rest, err = t.check(o.RequestTxn, rest)
		}
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (t *txn) checkRevision(revision int64) error {
	switch {
	case revision == 0:
		return nil
	case revision > t.begin:
		return rpctypes.ErrGRPCFutureRev
	case revision < t.compacted:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

func (t *txn) checkPut(r *etcdserverpb.PutRequest) error {
	if r.Lease != 0 && !t.view.HasLease(r.Lease) {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	if !r.IgnoreValue && !r.IgnoreLease {
		return nil
	}
	kv, err := t.get(r.Key)
	if kv == nil && err == nil {
		return rpctypes.ErrGRPCKeyNotFound
	}
	return err
}

// do carries out the branch that a path chooses. It returns the path of the transactions that follow.
func (t *txn) do(r *etcdserverpb.TxnRequest, path []bool) (response *etcdserverpb.TxnResponse, rest []bool, err error) {
	response, rest = &etcdserverpb.TxnResponse{Header: &etcdserverpb.ResponseHeader{}, Succeeded: path[0]}, path[1:]
	for _, op := range branch(r, path[0]) {
		result := &etcdserverpb.ResponseOp{}
		switch o := op.Request.(type) {
		case *etcdserverpb.RequestOp_RequestRange:
			var inner *etcdserverpb.RangeResponse
			inner, err = t.doRange(o.RequestRange)
			result.Response = &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: inner}
		case *etcdserverpb.RequestOp_RequestPut:
			var inner *etcdserverpb.PutResponse
			inner, err = t.put(o.RequestPut)
			result.Response = &etcdserverpb.ResponseOp_ResponsePut{ResponsePut: inner}
		case *etcdserverpb.RequestOp_RequestDeleteRange:
			var inner *etcdserverpb.DeleteRangeResponse
			inner, err = t.deleteRange(o.RequestDeleteRange)
			result.Response = &etcdserverpb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: inner}
		case *etcdserverpb.RequestOp_RequestTxn:
			var inner *etcdserverpb.TxnResponse
			inner, rest, err = t.do(o.RequestTxn, rest)
			result.Response = &etcdserverpb.ResponseOp_ResponseTxn{ResponseTxn: inner}
		}
		if err != nil {
			return nil, nil, err
		}
		response.Responses = append(response.Responses, result)
	}
	return response, rest, nil
}

func (t *txn) doRange(r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	kvs, remaining, err := t.pairs(rangeQuery(r))
	if err != nil {
		return nil, err
	}
	response := rangeResponse(r, kvs, remaining)
	response.Header = t.header()
	return response, nil
}

func (t *txn) put(r *etcdserverpb.PutRequest) (*etcdserverpb.PutResponse, error) {
	old, err := t.get(r.Key)
	if err != nil {
		return nil, err
	}
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, CreateRevision: t.begin + 1, ModRevision: t.begin + 1, Version: 1, Lease: r.Lease}
	if old != nil {
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
		if r.IgnoreValue {
			kv.Value = old.Value
		}
		if r.IgnoreLease {
			kv.Lease = old.Lease
		}
	}
	if err := t.write(kv, storage.Write{Key: string(kv.Key), Value: kv.Value, Lease: kv.Lease, If: storage.Any}); err != nil {
		return nil, err
	}
	response := &etcdserverpb.PutResponse{Header: t.header()}
	if r.PrevKv {
		response.PrevKv = old
	}
	return response, nil
}

func (t *txn) deleteRange(r *etcdserverpb.DeleteRangeRequest) (*etcdserverpb.DeleteRangeResponse, error) {
	kvs, _, err := t.pairs(newInterval(r.Key, r.RangeEnd).query(0))
	if err != nil {
		return nil, err
	}
	for _, kv := range kvs {
		if err := t.write(nil, storage.Write{Key: string(kv.Key), Delete: true, If: storage.Any}); err != nil {
			return nil, err
		}
	}
	response := &etcdserverpb.DeleteRangeResponse{Header: t.header(), Deleted: int64(len(kvs))}
	if r.PrevKv {
		response.PrevKvs = kvs
	}
	return response, nil
}

// write adds a write that makes kv the pair of a key. A store has one write of a key at a revision.
func (t *txn) write(kv *mvccpb.KeyValue, w storage.Write) error {
	if _, ok := t.written[w.Key]; ok {
		return rpctypes.ErrGRPCDuplicateKey
	}
	t.written[w.Key] = kv
	t.writes = append(t.writes, w)
	return nil
}
