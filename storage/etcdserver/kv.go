package etcdserver

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"flyball.dev/storage"
)

// kv is the service KV.
type kv struct {
	etcdserverpb.UnsafeKVServer
	*Server
}

// Range implements etcdserverpb.KVServer.
func (s *kv) Range(ctx context.Context, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	if err := checkRange(r); err != nil {
		return nil, err
	}
	latest, err := s.checkReadable(ctx, r.Revision)
	if err != nil {
		return nil, rpcError(err)
	}
	page, err := s.store.Range(ctx, rangeQuery(r))
	if err != nil {
		return nil, rpcError(err)
	}
	response := rangeResponse(r, keyValues(page.Records), page.Remaining)
	response.Header = s.header(max(latest, int64(page.Revision)))
	return response, nil
}

// checkReadable returns the latest revision, or an error if another revision cannot be read.
func (s *kv) checkReadable(ctx context.Context, revision int64) (latest int64, err error) {
	if revision <= 0 {
		return 0, nil // the revision of the range
	}
	latest, compacted, err := s.revisions(ctx)
	switch {
	case err != nil:
		return 0, err
	case revision > latest:
		return 0, rpctypes.ErrGRPCFutureRev
	case revision < compacted:
		return 0, rpctypes.ErrGRPCCompacted
	}
	return latest, nil
}

// chunk is about how many bytes of keys and values a response of RangeStream has.
const chunk = 1 << 20

// RangeStream implements etcdserverpb.KVServer.
func (s *kv) RangeStream(r *etcdserverpb.RangeRequest, stream etcdserverpb.KV_RangeStreamServer) error {
	switch err := checkRange(r); {
	case err != nil:
		return err
	case !isOrdered(r):
		return status.Error(codes.Unimplemented, "RangeStream does not support custom sort orders")
	case isFiltered(r):
		return status.Error(codes.Unimplemented, "RangeStream does not support revision filters")
	}
	whole, err := s.Range(stream.Context(), r)
	if err != nil {
		return err
	}
	for kvs := whole.Kvs; ; {
		n := sizedPrefix(kvs)
		part := &etcdserverpb.RangeResponse{Kvs: kvs[:n]}
		if kvs = kvs[n:]; len(kvs) == 0 {
			part.Header, part.More, part.Count = whole.Header, whole.More, whole.Count
		}
		if err := stream.Send(&etcdserverpb.RangeStreamResponse{RangeResponse: part}); err != nil || len(kvs) == 0 {
			return err
		}
	}
}

// sizedPrefix returns how many pairs make a chunk.
func sizedPrefix(kvs []*mvccpb.KeyValue) int {
	size := 0
	for i, kv := range kvs {
		if size += len(kv.Key) + len(kv.Value); size > chunk && i > 0 {
			return i
		}
	}
	return len(kvs)
}

// Put implements etcdserverpb.KVServer.
func (s *kv) Put(ctx context.Context, r *etcdserverpb.PutRequest) (response *etcdserverpb.PutResponse, err error) {
	if err := firstOf(checkPut(r), checkSize(r)); err != nil {
		return nil, err
	}
	_, revision, err := s.transact(ctx, func(t *txn) error {
		if err := t.checkPut(r); err != nil {
			return err
		}
		response, err = t.put(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	response.Header = s.header(revision)
	return response, nil
}

// DeleteRange implements etcdserverpb.KVServer.
func (s *kv) DeleteRange(ctx context.Context, r *etcdserverpb.DeleteRangeRequest) (response *etcdserverpb.DeleteRangeResponse, err error) {
	if err := firstOf(checkDelete(r), checkSize(r)); err != nil {
		return nil, err
	}
	_, revision, err := s.transact(ctx, func(t *txn) error {
		response, err = t.deleteRange(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	response.Header = s.header(revision)
	return response, nil
}

// Txn implements etcdserverpb.KVServer.
func (s *kv) Txn(ctx context.Context, r *etcdserverpb.TxnRequest) (response *etcdserverpb.TxnResponse, err error) {
	if err := checkTxn(r, maxOperations); err != nil {
		return nil, err
	}
	for _, branch := range [][]*etcdserverpb.RequestOp{r.Success, r.Failure} {
		if _, err := checkBranch(branch); err != nil {
			return nil, err
		}
	}
	if err := checkSize(r); err != nil {
		return nil, err
	}
	expected, revision, err := s.transact(ctx, func(t *txn) error {
		path, err := t.choose(r)
		if err != nil {
			return err
		}
		if _, err := t.check(r, path); err != nil {
			return err
		}
		response, _, err = t.do(r, path)
		return err
	})
	if err != nil {
		return nil, err
	}
	renumber(response, expected, revision)
	response.Header = s.header(revision)
	return response, nil
}

// transact carries out a transaction. It may call f several times. It returns the revision that f has expected its writes
// to have, and the one that they have or, without writes, the latest.
func (s *kv) transact(ctx context.Context, f func(*txn) error) (expected, revision int64, err error) {
	got, err := s.store.Transact(ctx, func(v storage.View) ([]storage.Write, error) {
		t := s.newTxn(v)
		err := f(t)
		expected = t.begin + 1
		return t.writes, err
	})
	return expected, int64(got), rpcError(err)
}

// renumber replaces the revision that the writes of a transaction were expected to have. No pair from before has it.
func renumber(r *etcdserverpb.TxnResponse, expected, revision int64) {
	if expected == revision {
		return
	}
	set := func(at *int64) {
		if *at == expected {
			*at = revision
		}
	}
	for _, op := range r.Responses {
		switch o := op.Response.(type) {
		case *etcdserverpb.ResponseOp_ResponseRange:
			set(&o.ResponseRange.Header.Revision)
			for _, kv := range o.ResponseRange.Kvs {
				set(&kv.CreateRevision)
				set(&kv.ModRevision)
			}
		case *etcdserverpb.ResponseOp_ResponsePut:
			set(&o.ResponsePut.Header.Revision)
		case *etcdserverpb.ResponseOp_ResponseDeleteRange:
			set(&o.ResponseDeleteRange.Header.Revision)
		case *etcdserverpb.ResponseOp_ResponseTxn:
			renumber(o.ResponseTxn, expected, revision)
		}
	}
}

// firstOf returns the first error that is not nil.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
