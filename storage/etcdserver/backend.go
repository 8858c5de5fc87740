package etcdserver

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"flyball.dev/storage"
)

// backend is the content of etcd's database: all keys at one revision, without the history before, and the leases.
type backend struct {
	revision uint64
	records  []*storage.Record
	leases   map[int64]storage.Lease
	// expiring has the leases of records that expire without one, by the minute in which they end.
	expiring map[int64]int64
}

// The buckets and keys of etcd's database.
//
//upstream:go.etcd.io/etcd/server/v3/storage/schema.AllBuckets
const (
	bucketKeys   = "key"
	bucketMeta   = "meta"
	bucketLeases = "lease"

	metaIndex     = "consistent_index"
	metaTerm      = "term"
	metaScheduled = "scheduledCompactRev"
	metaFinished  = "finishedCompactRev"
)

var emptyBuckets = []string{"alarm", "cluster", "members", "members_removed", "auth", "authUsers", "authRoles"}

// readBackend reads the records and the leases of a store. A lease that has ended meanwhile, with records that the store
// deletes now, ends at once after a restoration too.
func readBackend(ctx context.Context, s Store) (*backend, error) {
	page, err := s.Range(ctx, storage.Query{Scan: true})
	if err != nil {
		return nil, err
	}
	b := &backend{revision: page.Revision, records: slices.Clone(page.Records), leases: map[int64]storage.Lease{}, expiring: map[int64]int64{}}
	all, err := s.Leases(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		b.leases[l.ID] = l
	}
	for _, r := range b.records {
		if _, ok := b.leases[r.Lease]; !ok && r.Lease != 0 {
			b.leases[r.Lease] = storage.Lease{ID: r.Lease, TTL: time.Second, Expires: time.Now()}
		}
	}
	slices.SortFunc(b.records, func(x, y *storage.Record) int {
		return cmp.Or(cmp.Compare(x.Revision, y.Revision), cmp.Compare(x.Key, y.Key))
	})
	return b, nil
}

// leaseOf returns the lease of a record. A record that expires by itself gets one, which it shares with others that expire in
// the same minute.
func (b *backend) leaseOf(r *storage.Record) int64 {
	if r.Lease != 0 || r.Expires.IsZero() {
		return r.Lease
	}
	minute := time.Now().Add(time.Until(r.Expires)).Unix()/60 + 1 // by the wall clock, which may have been set since
	id, ok := b.expiring[minute]
	for !ok {
		id = minute<<20 + int64(len(b.expiring)) + 1
		for b.leases[id].ID != 0 {
			id++
		}
		end := time.Unix(minute*60, 0)
		b.leases[id] = storage.Lease{ID: id, TTL: max(time.Until(end), time.Second), Expires: end}
		b.expiring[minute], ok = id, true
	}
	return id
}

// batchSize is about how many bytes are written to the database at once.
const batchSize = 8 << 20

// write writes the database to a file. The revision is a compact revision, so that revisions go on after it although the keys of
// the latest writes may be deleted.
func (b *backend) write(ctx context.Context, file string) (err error) {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range append([]string{bucketKeys, bucketMeta, bucketLeases}, emptyBuckets...) {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(bucketMeta))
		compacted := revisionKey(b.revision, 0)
		return errors.Join(meta.Put([]byte(metaIndex), number(1)), meta.Put([]byte(metaTerm), number(1)),
			meta.Put([]byte(metaScheduled), compacted), meta.Put([]byte(metaFinished), compacted))
	})
	var last, sub uint64
	for rest := b.records; len(rest) > 0 && err == nil; {
		if err = ctx.Err(); err != nil {
			break
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			keys := tx.Bucket([]byte(bucketKeys))
			keys.FillPercent = 0.9 // the revisions are in order
			for size := 0; len(rest) > 0 && size < batchSize; rest = rest[1:] {
				r := rest[0]
				if sub++; r.Revision != last {
					last, sub = r.Revision, 0
				}
				kv := keyValue(r)
				kv.Lease = b.leaseOf(r)
				value, err := proto.Marshal(kv)
				if err == nil {
					err = keys.Put(revisionKey(r.Revision, sub), value)
				}
				if err != nil {
					return err
				}
				size += len(value)
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	return db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(bucketLeases))
		var errs []error
		for id, l := range b.leases {
			errs = append(errs, bucket.Put(number(uint64(id)), leaseValue(l)))
		}
		return errors.Join(errs...)
	})
}

// revisionKey returns the key of a write in the database: its revision, and its number among the writes of the revision.
//
//upstream:go.etcd.io/etcd/server/v3/storage/mvcc.BucketKeyToBytes
func revisionKey(revision, sub uint64) []byte {
	return append(append(number(revision), '_'), number(sub)...)
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// leaseValue returns the message leasepb.Lease: the ID, the time to live, and the time that remains, in seconds.
func leaseValue(l storage.Lease) []byte {
	var value []byte
	for i, n := range []int64{l.ID, wholeSeconds(l.TTL), wholeSeconds(time.Until(l.Expires))} {
		value = protowire.AppendVarint(protowire.AppendTag(value, protowire.Number(i+1), protowire.VarintType), uint64(n))
	}
	return value
}

// wholeSeconds returns a time in seconds, at least one.
func wholeSeconds(d time.Duration) int64 { return max(1, int64(math.Ceil(d.Seconds()))) }

// temporary writes the database to a temporary file, and calls f with it.
func (b *backend) temporary(ctx context.Context, f func(file io.Reader, size int64) error) error {
	dir, err := os.MkdirTemp("", "flyball-etcd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "db")
	if err := b.write(ctx, name); err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return f(file, info.Size())
}
