package etcdserver

import (
	"bytes"
	"cmp"
	"math"
	"sort"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"flyball.dev/storage"
)

// keyValue returns the key-value pair of a record.
func keyValue(r *storage.Record) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{
		Key: []byte(r.Key), Value: r.Value(), CreateRevision: int64(r.Created), ModRevision: int64(r.Revision),
		Version: int64(r.Version), Lease: r.Lease,
	}
}

func keyValues(records []*storage.Record) []*mvccpb.KeyValue {
	kvs := make([]*mvccpb.KeyValue, len(records))
	for i, r := range records {
		kvs[i] = keyValue(r)
	}
	return kvs
}

// rangeQuery returns the query for a request. The limit of the request applies after its filters and its order. As etcd
// does, the query has one pair more than the limit, and a request with a target but no order is for the first keys, which
// are then sorted.
func rangeQuery(r *etcdserverpb.RangeRequest) storage.Query {
	q := newInterval(r.Key, r.RangeEnd).query(r.Revision)
	switch {
	case r.CountOnly:
		q.Limit = 1 // all others are counted
	case isOrdered(r) && !isFiltered(r) && r.Limit > 0 && r.Limit < math.MaxInt64:
		q.Limit = int(r.Limit) + 1
	}
	return q
}

// isOrdered reports whether a request has no order but the one of the keys.
func isOrdered(r *etcdserverpb.RangeRequest) bool {
	return r.SortOrder == etcdserverpb.RangeRequest_NONE ||
		r.SortTarget == etcdserverpb.RangeRequest_KEY && r.SortOrder == etcdserverpb.RangeRequest_ASCEND
}

func isFiltered(r *etcdserverpb.RangeRequest) bool {
	return r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
}

// rangeResponse returns the response without a header, given the selected pairs, which it changes, and the number of further
// pairs.
func rangeResponse(r *etcdserverpb.RangeRequest, kvs []*mvccpb.KeyValue, remaining int) *etcdserverpb.RangeResponse {
	response := &etcdserverpb.RangeResponse{Count: int64(len(kvs) + remaining)}
	if r.CountOnly {
		return response
	}
	if isFiltered(r) {
		kvs = filter(r, kvs)
	}
	sortPairs(r, kvs)
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		kvs, response.More = kvs[:r.Limit], true
	}
	if r.KeysOnly {
		for _, kv := range kvs {
			if kv.Value = nil; r.SortTarget != etcdserverpb.RangeRequest_VALUE {
				kv.Lease = 0 // as in etcd, where the index has keys and revisions only
			}
		}
	}
	response.Kvs = kvs
	return response
}

// filter keeps the pairs with revisions within the bounds of a request, where zero means no bound.
func filter(r *etcdserverpb.RangeRequest, kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	within := func(revision, low, high int64) bool {
		return (low == 0 || revision >= low) && (high == 0 || revision <= high)
	}
	kept := kvs[:0]
	for _, kv := range kvs {
		if within(kv.ModRevision, r.MinModRevision, r.MaxModRevision) && within(kv.CreateRevision, r.MinCreateRevision, r.MaxCreateRevision) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// sortPairs sorts pairs in the order of a request. The sort is not stable: with the algorithm of etcd, equal pairs have the
// same order as there.
func sortPairs(r *etcdserverpb.RangeRequest, kvs []*mvccpb.KeyValue) {
	order := r.SortOrder
	if r.SortTarget != etcdserverpb.RangeRequest_KEY && order == etcdserverpb.RangeRequest_NONE {
		order = etcdserverpb.RangeRequest_ASCEND
	}
	if r.SortTarget == etcdserverpb.RangeRequest_KEY && order != etcdserverpb.RangeRequest_DESCEND {
		return
	}
	var by sort.Interface = sorter{kvs, comparisons[r.SortTarget]}
	if order == etcdserverpb.RangeRequest_DESCEND {
		by = sort.Reverse(by)
	}
	sort.Sort(by)
}

var comparisons = map[etcdserverpb.RangeRequest_SortTarget]func(a, b *mvccpb.KeyValue) int{
	etcdserverpb.RangeRequest_KEY:     func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) },
	etcdserverpb.RangeRequest_VERSION: func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.Version, b.Version) },
	etcdserverpb.RangeRequest_CREATE:  func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) },
	etcdserverpb.RangeRequest_MOD:     func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) },
	etcdserverpb.RangeRequest_VALUE:   func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Value, b.Value) },
}

// sorter sorts pairs.
type sorter struct {
	kvs     []*mvccpb.KeyValue
	compare func(a, b *mvccpb.KeyValue) int
}

func (s sorter) Len() int           { return len(s.kvs) }
func (s sorter) Less(i, j int) bool { return s.compare(s.kvs[i], s.kvs[j]) < 0 }
func (s sorter) Swap(i, j int)      { s.kvs[i], s.kvs[j] = s.kvs[j], s.kvs[i] }
