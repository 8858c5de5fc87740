package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"flyball.dev/storage"
	"flyball.dev/storage/etcd"
)

// apiOn returns a client of etcd's API over a store in a cluster.
func apiOn(t *testing.T, c *cluster) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + serveStore(t, open(t, c, etcd.Options{}))}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// TestCompactionsOfOthers requires that two servers of etcd's API on one cluster agree about the compact revision, and that a
// server has the revisions from before its start.
func TestCompactionsOfOthers(t *testing.T) {
	c := startCluster(t, 1)
	one, two := apiOn(t, c), apiOn(t, c)
	for i := range 40 { // revisions 2 to 41
		if _, err := one.Put(t.Context(), fmt.Sprintf("key%d", i%3), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	get := func(s *clientv3.Client, revision int64) error {
		r, err := s.Get(t.Context(), "key", clientv3.WithPrefix(), clientv3.WithRev(revision))
		if err == nil && (len(r.Kvs) == 0 || r.Kvs[len(r.Kvs)-1].ModRevision > revision) {
			return fmt.Errorf("%v at revision %d", r.Kvs, revision)
		}
		return err
	}
	compact := func(s *clientv3.Client, revision int64) error {
		_, err := s.Compact(t.Context(), revision)
		return err
	}
	check := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("two reads 2", get(two, 2), nil)
	check("one compacts 20", compact(one, 20), nil)
	check("two reads 19", get(two, 19), rpctypes.ErrCompacted)
	check("two reads 20", get(two, 20), nil)
	check("two compacts 20", compact(two, 20), rpctypes.ErrCompacted)
	check("two compacts 42", compact(two, 42), rpctypes.ErrFutureRev)
	check("two compacts 25", compact(two, 25), nil)
	check("one reads 24", get(one, 24), rpctypes.ErrCompacted)
	check("one compacts 25", compact(one, 25), rpctypes.ErrCompacted)

	three := apiOn(t, c)
	check("three reads 24", get(three, 24), rpctypes.ErrCompacted)
	check("three reads 25", get(three, 25), nil)
	r, err := three.Txn(t.Context()).Then(
		clientv3.OpPut("other", ""), clientv3.OpGet("key1", clientv3.WithRev(30)),
	).Commit()
	if err != nil || string(r.Responses[1].GetResponseRange().Kvs[0].Value) != "28" {
		t.Errorf("three reads 30 in a transaction: %v, %v", r, err)
	}
	_, err = three.Txn(t.Context()).Then(clientv3.OpGet("key1", clientv3.WithRev(24))).Commit()
	check("three reads 24 in a transaction", err, rpctypes.ErrCompacted)
	limited, err := three.Get(t.Context(), "key", clientv3.WithPrefix(), clientv3.WithRev(30), clientv3.WithLimit(2))
	if err != nil || len(limited.Kvs) != 2 || limited.Count != 3 || !limited.More {
		t.Errorf("three reads 30 with a limit: %v, %v", limited, err)
	}
}

// TestFailedCompaction requires that a compaction that the cluster has not carried out leaves all revisions readable.
func TestFailedCompaction(t *testing.T) {
	c := startCluster(t, 1)
	s := open(t, c, etcd.Options{})
	defer s.Close()
	for i := range 10 {
		if _, err := s.Put(t.Context(), storage.Write{Key: fmt.Sprintf("/key%d", i), If: storage.Any}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Compact(ctx, 8); err == nil {
		t.Fatal("compacted")
	}
	if page, err := s.Range(t.Context(), storage.Query{Revision: 5}); err != nil || len(page.Records) != 4 {
		t.Errorf("%v, %v", page, err)
	}
}
