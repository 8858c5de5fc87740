package etcd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// interval is a range of keys in the cluster: from low up to, but not including, high. A high end of firstKey means no bound.
type interval struct{ low, high string }

// intervals returns the keys in the cluster that a query may select, in an interval for each prefix.
func (s *Store) intervals(q storage.Query) (all []interval) {
	from, to := bounds(q)
	for _, p := range s.options.Prefixes {
		low, high := max(from, p.Store), afterPrefix(p.Store)
		if to != "" && (high == "" || to < high) {
			high = to
		}
		if high != "" && low >= high {
			continue
		}
		i := interval{p.Cluster + strings.TrimPrefix(low, p.Store), afterPrefix(p.Cluster)}
		if rest, ok := strings.CutPrefix(high, p.Store); ok && high != "" {
			i.high = p.Cluster + rest
		}
		if i.low == "" {
			i.low = firstKey
		}
		if i.high == "" {
			i.high = firstKey
		}
		all = append(all, i)
	}
	return all
}

// bounds returns the first key that a query may select, and the first one after all that it may; "" for no bound.
func bounds(q storage.Query) (from, to string) {
	to = q.Path + "\x00"
	if q.Path == "" || strings.HasSuffix(q.Path, "/") {
		to = afterPrefix(q.Path)
	}
	if q.End != "" && (to == "" || q.End < to) {
		to = q.End
	}
	return max(q.Path, q.Start), to
}

// afterPrefix returns the first key after all keys with a prefix, or "" if there is none.
func afterPrefix(prefix string) string {
	if end := clientv3.GetPrefixRangeEnd(prefix); end != "\x00" && prefix != "" {
		return end
	}
	return ""
}

// rangeAt reads records at a revision that the replica has reached: from the replica, unless it was loaded later.
func (s *Store) rangeAt(ctx context.Context, q storage.Query) (storage.Page, error) {
	if q.Revision != 0 && q.Revision < s.position.compactRevision() {
		return storage.Page{}, storage.ErrCompacted
	}
	page, err := s.replica.Range(ctx, q)
	if errors.Is(err, storage.ErrCompacted) && q.Index == "" {
		return s.rangeCluster(ctx, q)
	}
	return page, err
}

// rangeCluster reads records at a revision from the cluster.
func (s *Store) rangeCluster(ctx context.Context, q storage.Query) (storage.Page, error) {
	page := storage.Page{Revision: q.Revision}
	for _, i := range s.intervals(q) {
		r, err := s.client.Get(ctx, i.low, clientv3.WithRange(i.high), clientv3.WithRev(int64(q.Revision)), clientv3.WithLimit(int64(q.Limit)))
		if err != nil {
			return storage.Page{}, translate(err)
		}
		for _, kv := range r.Kvs {
			page.Records = append(page.Records, memory.NewRecord(s.record(kv), kv.Value))
		}
		page.Remaining += int(r.Count) - len(r.Kvs)
	}
	slices.SortFunc(page.Records, func(a, b *storage.Record) int { return cmp.Compare(a.Key, b.Key) })
	if n := len(page.Records); q.Limit > 0 && n > q.Limit {
		page.Records, page.Remaining = page.Records[:q.Limit], page.Remaining+n-q.Limit
	}
	return page, nil
}
