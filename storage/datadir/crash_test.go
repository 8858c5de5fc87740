package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"flyball.dev/internal/testlevel"
	"flyball.dev/storage"
	"flyball.dev/storage/internal/frame"
)

// small are options with which a few writes fill log files and lead to snapshots.
var small = Options{LogFile: 4 << 10, SnapshotAfter: 6 << 10}

// ledger is what the writers were told.
type ledger struct {
	mu sync.Mutex
	// acknowledged has the value of each revision that a writer was told, "" for a deletion, and keys its key.
	acknowledged map[uint64]string
	keys         map[uint64]string
	// open has, for each key, the values of writes that have begun after the last acknowledged one and have an
	// unknown fate. A deletion is "".
	open map[string][]string
	// leases has true for a lease that was granted, false for one that was revoked, and nothing for one with an unknown
	// fate.
	leases map[int64]bool
	// compacted is the largest revision of an acknowledged compaction.
	compacted uint64
	next      int
}

func newLedger() *ledger {
	return &ledger{acknowledged: map[uint64]string{}, keys: map[uint64]string{}, open: map[string][]string{}, leases: map[int64]bool{}}
}

// changeLease grants a lease, or revokes one.
func (l *ledger) changeLease(s storage.Lessor, random *rand.Rand) error {
	l.mu.Lock()
	l.next++
	id, granted := int64(l.next), true
	if random.IntN(2) == 0 {
		for other, is := range l.leases {
			if is {
				id, granted = other, false
				delete(l.leases, id) // its fate is open
				break
			}
		}
	}
	l.mu.Unlock()
	var err error
	if granted {
		_, err = s.Grant(ctx, id, time.Hour)
	} else {
		_, err = s.Revoke(ctx, id)
	}
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.leases[id] = granted
	}
	return err
}

// compact compacts the history up to a recent revision.
func (l *ledger) compact(s storage.Store, random *rand.Rand) error {
	latest, oldest, err := s.Revisions(ctx)
	if err != nil {
		return err
	}
	revision := oldest + random.Uint64N(latest-oldest+1)
	if err := s.Compact(ctx, revision); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.compacted = max(l.compacted, revision)
	return nil
}

// checkLeases compares the leases of a store with what the writers were told.
func (l *ledger) checkLeases(s storage.Lessor) error {
	found, err := leaseIDs(s)
	if err != nil {
		return err
	}
	for id, granted := range l.leases {
		if found[id] != granted {
			return fmt.Errorf("lease %d: acknowledged %v, found %v", id, granted, found[id])
		}
	}
	return nil
}

func leaseIDs(s storage.Lessor) (map[int64]bool, error) {
	all, err := s.Leases(ctx)
	found := map[int64]bool{}
	for _, l := range all {
		found[l.ID] = true
	}
	return found, err
}

// twin is the prefix of values that are written to two keys at once: the second one is below /twin.
const twin = "twin "

// write makes a random write of one of the writer's keys, in some cases together with its twin.
func (l *ledger) write(s storage.Lessor, random *rand.Rand, writer int) error {
	switch random.IntN(12) {
	case 0, 1:
		return l.changeLease(s, random)
	case 2:
		return l.compact(s, random)
	}
	key := fmt.Sprintf("/writer-%d/key-%d", writer, random.IntN(4))
	l.mu.Lock()
	l.next++
	value := ""
	if random.IntN(4) > 0 {
		value = fmt.Sprintf("%d:%s", l.next, bytes.Repeat([]byte{byte(random.IntN(4))}, random.IntN(3*frame.SectorSize)))
		if random.IntN(3) == 0 {
			value = twin + value
		}
	}
	l.open[key] = append(l.open[key], value)
	l.mu.Unlock()
	var r *storage.Record
	var err error
	w := storage.Write{Key: key, Value: []byte(value), If: storage.Any}
	switch {
	case value == "":
		r, err = s.Delete(ctx, key, storage.Any)
	case strings.HasPrefix(value, twin):
		second := w
		second.Key = "/twin" + key
		var both []*storage.Record
		if both, err = s.Commit(ctx, []storage.Write{second, w}); err == nil {
			r = both[1]
		}
	default:
		r, err = s.Put(ctx, w)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.acknowledged[r.Revision], l.keys[r.Revision] = value, key
		l.open[key] = nil
	case errors.Is(err, storage.ErrNotFound):
		open := l.open[key]
		l.open[key] = open[:len(open)-1]
		return nil
	}
	return err
}

// check compares a store that was opened after a crash with what the writers were told.
func (l *ledger) check(s storage.Lessor) error {
	if err := l.checkLeases(s); err != nil {
		return err
	}
	if _, oldest, err := s.Revisions(ctx); err != nil || oldest < l.compacted {
		return fmt.Errorf("the history begins at revision %d, and was compacted at %d: %w", oldest, l.compacted, err)
	}
	page, err := s.Range(ctx, storage.Query{})
	if err != nil {
		return err
	}
	last := map[string]uint64{} // of each key, the revision of the last acknowledged write
	for revision, key := range l.keys {
		last[key] = max(last[key], revision)
		if revision > page.Revision {
			return fmt.Errorf("the store is at revision %d, and revision %d was acknowledged", page.Revision, revision)
		}
	}
	if err := checkTwins(page.Records); err != nil {
		return err
	}
	found := map[string]bool{}
	for _, r := range page.Records {
		if strings.HasPrefix(r.Key, "/twin") {
			continue
		}
		found[r.Key] = true
		value := string(r.Value())
		if r.Revision == last[r.Key] {
			if value != l.acknowledged[r.Revision] {
				return fmt.Errorf("%s has another value at revision %d than was acknowledged", r.Key, r.Revision)
			}
			continue
		}
		if r.Revision < last[r.Key] {
			return fmt.Errorf("%s is at revision %d, and %d was acknowledged", r.Key, r.Revision, last[r.Key])
		}
		if !contains(l.open[r.Key], value) {
			return fmt.Errorf("%s has a value at revision %d that nobody has written since revision %d", r.Key, r.Revision, last[r.Key])
		}
	}
	for key, revision := range last {
		if !found[key] && l.acknowledged[revision] != "" && !contains(l.open[key], "") {
			return fmt.Errorf("%s is gone, and revision %d was acknowledged", key, revision)
		}
	}
	return nil
}

// checkTwins checks that two keys that were written at once are both there.
func checkTwins(records []*storage.Record) error {
	byKey := map[string]*storage.Record{}
	for _, r := range records {
		byKey[r.Key] = r
	}
	for key, r := range byKey {
		if first, ok := strings.CutPrefix(key, "/twin"); ok {
			if f := byKey[first]; f != nil && f.Revision < r.Revision {
				return fmt.Errorf("%s is at revision %d, and %s, which was written with it, at %d", key, r.Revision, first, f.Revision)
			}
			continue
		}
		if second := byKey["/twin"+key]; bytes.HasPrefix(r.Value(), []byte(twin)) &&
			(second == nil || second.Revision != r.Revision || !bytes.Equal(second.Value(), r.Value())) {
			return fmt.Errorf("%s has revision %d, and its twin has not", key, r.Revision)
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// life runs writers on a disk until it crashes, and returns the disk after the crash and how far it came.
func life(d *disk, l *ledger, random *rand.Rand) (*disk, error) {
	s, err := open(d, "disk", small)
	if err != nil {
		if errors.Is(err, errCrashed) {
			return d.crash(), nil
		}
		return nil, fmt.Errorf("opening: %w", err)
	}
	if err := l.check(s); err != nil {
		s.Close()
		return nil, err
	}
	var group sync.WaitGroup
	for writer := range 3 {
		seed := random.Uint64()
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for l.write(s, random, writer) == nil {
			}
		})
	}
	group.Wait()
	s.Close()
	return d.crash(), nil
}

// lives crashes a disk several times, and returns the first error.
func lives(seed uint64, skip func(name string) bool) (skipped int, err error) {
	random := rand.New(rand.NewPCG(seed, 7))
	d, l := newDisk(random), newLedger()
	for i := range 6 {
		d.left, d.skip = 1+random.IntN(150), skip
		if i == 0 {
			d.left = 1 + random.IntN(15) // while the directory is made
		}
		before := d
		d, err = life(d, l, random)
		skipped += before.skipped
		if err != nil {
			return skipped, err
		}
		// What was not acknowledged before the crash is there now or never.
		s, err := open(d.clone(), "disk", small)
		if err != nil {
			return skipped, fmt.Errorf("opening after the crash: %w", err)
		}
		err = l.check(s)
		l.settle(s)
		s.Close()
		if err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

// settle takes what a store has as acknowledged.
func (l *ledger) settle(s storage.Lessor) {
	l.leases, _ = leaseIDs(s)
	page, err := s.Range(ctx, storage.Query{})
	if err != nil {
		return
	}
	clear(l.open)
	clear(l.acknowledged)
	clear(l.keys)
	for _, r := range page.Records {
		if strings.HasPrefix(r.Key, "/twin") {
			continue
		}
		l.acknowledged[r.Revision], l.keys[r.Revision] = string(r.Value()), r.Key
	}
}

// TestCrashes crashes the machine at random moments of the life of a store, during its recovery too.
func TestCrashes(t *testing.T) {
	for seed := range uint64(testlevel.Rounds(20, 200)) {
		if _, err := lives(seed, nil); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestMissingSync checks that TestCrashes finds each Sync that is left out.
func TestMissingSync(t *testing.T) {
	const rounds = 200
	for _, test := range []struct {
		name string
		skip func(name string) bool
	}{
		{"log", func(name string) bool {
			return strings.HasPrefix(name, logPrefix) && !strings.HasSuffix(name, temporarySuffix)
		}},
		{"new-log", func(name string) bool {
			return strings.HasPrefix(name, logPrefix) && strings.HasSuffix(name, temporarySuffix)
		}},
		{"new-snapshot", func(name string) bool { return strings.HasPrefix(name, snapshotPrefix) }},
		{"new-format", func(name string) bool { return name == formatFile+temporarySuffix }},
		{"name-of-log", func(name string) bool { return strings.HasPrefix(name, "./"+logPrefix) }},
		{"name-of-snapshot", func(name string) bool { return strings.HasPrefix(name, "./"+snapshotPrefix) }},
		{"name-of-format", func(name string) bool { return name == "./"+formatFile }},
	} {
		t.Run(test.name, func(t *testing.T) {
			total := 0
			for seed := range uint64(rounds) {
				skipped, err := lives(seed, test.skip)
				total += skipped
				if err != nil {
					t.Logf("caught in round %d: %v", seed, err)
					return
				}
			}
			t.Errorf("not caught in %d rounds, in which Sync was left out %d times", rounds, total)
		})
	}
}
