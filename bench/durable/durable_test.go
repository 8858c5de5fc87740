// Package durable measures what it costs to make writes durable: with the data directory's log, with etcd's
// write-ahead log, and with bbolt, in one run on one disk.
//
//	go test -C bench/durable -bench . -benchtime 5s
//
// Each has the same writers and the same values, and makes the writes that arrive meanwhile durable together.
package durable

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/memory"
)

const (
	writers   = 8
	keys      = 10_000
	valueSize = 3000
)

// value returns a value that does not compress.
func value() []byte {
	v := make([]byte, valueSize)
	for i := range v {
		v[i] = byte(rand.Uint32())
	}
	return v
}

// benchmark runs the writers, and reports the bytes that the directory has grown by for each byte of values.
func benchmark(b *testing.B, dir string, put func(key string, value []byte) error) {
	v := value()
	b.SetBytes(valueSize)
	b.SetParallelism(writers / 2) // on two processors
	b.ReportAllocs()
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := put(fmt.Sprintf("/registry/pods/default/web-%06d", n.Add(1)%keys), v); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, err := d.Info()
			if err != nil {
				return nil
			}
			size += info.Size()
		}
		return nil
	})
	b.ReportMetric(float64(size)/(1<<20), "MiB-directory")
}

// store returns a function that puts a record into a memory store. The journal makes batches durable.
func store(b *testing.B, j memory.Journal) func(key string, value []byte) error {
	s := memory.New(memory.Options{Journal: j})
	b.Cleanup(func() { s.Close() })
	return puts(s)
}

func puts(s storage.Store) func(key string, value []byte) error {
	return func(key string, value []byte) error {
		_, err := s.Put(context.Background(), storage.Write{Key: key, Value: value, If: storage.Any})
		return err
	}
}

func BenchmarkDataDirectory(b *testing.B) {
	dir := b.TempDir()
	s, err := datadir.Open(dir, datadir.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	benchmark(b, dir, puts(s))
}

// walJournal keeps a batch as one entry of etcd's log.
type walJournal struct {
	log   *wal.WAL
	index uint64
	buf   []byte
}

func (j *walJournal) Write(b memory.Batch) error {
	j.buf = j.buf[:0]
	for _, e := range b.Events {
		j.buf = append(append(j.buf, e.Record.Key...), e.Record.Value()...)
	}
	j.index++
	term, index := uint64(1), j.index
	return j.log.Save(&raftpb.HardState{Term: &term, Commit: &index}, []*raftpb.Entry{{Term: &term, Index: &index, Data: j.buf}})
}

func BenchmarkEtcdWAL(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "wal")
	log, err := wal.Create(zap.NewNop(), dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	benchmark(b, dir, store(b, &walJournal{log: log}))
}

// boltJournal keeps a batch in one transaction.
type boltJournal struct{ db *bbolt.DB }

var bucket = []byte("records")

func (j *boltJournal) Write(b memory.Batch) error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bucket)
		for _, e := range b.Events {
			if err := bucket.Put([]byte(e.Record.Key), e.Record.Value()); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkBolt(b *testing.B) {
	dir := b.TempDir()
	db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(bucket); return err }); err != nil {
		b.Fatal(err)
	}
	benchmark(b, dir, store(b, &boltJournal{db: db}))
}
