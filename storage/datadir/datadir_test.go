package datadir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/snapshot"
	"flyball.dev/storage/storagetest"
)

var ctx = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store { return openDir(t, t.TempDir(), small) })
}

func openDir(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func put(t testing.TB, s storage.Store, w storage.Write) *storage.Record {
	t.Helper()
	r, err := s.Put(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// state describes a store: its revision and its records.
func state(t testing.TB, s storage.Store) []string {
	t.Helper()
	page, err := s.Range(ctx, storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{fmt.Sprintf("revision %d", page.Revision)}
	for _, r := range page.Records {
		lines = append(lines, fmt.Sprintf("%s=%x created %d, revision %d, version %d, expires %d", r.Key, r.Value(), r.Created, r.Revision, r.Version, r.Expires.UnixNano()))
	}
	return lines
}

// TestReopen opens a directory again and again, with writes of all sizes in between.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	random := rand.New(rand.NewPCG(1, 1))
	var want []string
	for round := range 30 {
		s := openDir(t, dir, small)
		if round > 0 {
			if diff := cmp.Diff(want, state(t, s)); diff != "" {
				t.Fatalf("round %d (-before +after):\n%s", round, diff)
			}
		}
		for range random.IntN(30) {
			key := fmt.Sprintf("/k/%d", random.IntN(20))
			if random.IntN(4) == 0 {
				_, _ = s.Delete(ctx, key, storage.Any)
				continue
			}
			value := make([]byte, random.IntN(1<<random.IntN(15))) // zeros, as no frame may have
			w := storage.Write{Key: key, Value: value, If: storage.Any}
			if random.IntN(3) == 0 {
				w.Expires = time.Now().Add(time.Hour)
			}
			put(t, s, w)
		}
		want = state(t, s)
		closeStore(t, s)
	}
}

// TestSnapshots checks that snapshots keep the directory small, and that what they replace goes.
func TestSnapshots(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, small)
	for i := range 3000 {
		put(t, s, storage.Write{Key: fmt.Sprintf("/k/%d", i%5), Value: make([]byte, 100), If: storage.Any})
	}
	closeStore(t, s)
	names, err := (osFiles{dir: dir}).List()
	if err != nil {
		t.Fatal(err)
	}
	if len(withPrefix(names, snapshotPrefix)) != 1 || len(logNames(names)) > 12 {
		t.Errorf("the directory has %q", names)
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestWatchAfterReopen resumes a watch within the history that the log has, and one before it.
func TestWatchAfterReopen(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{})
	for i := range 10 {
		put(t, s, storage.Write{Key: fmt.Sprintf("/k/%d", i)})
	}
	closeStore(t, s)
	s = openDir(t, dir, Options{})
	defer closeStore(t, s)
	w, err := s.Watch(ctx, "/k/", 6)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	events, revision, err := w.Next()
	if err != nil || len(events) != 5 || revision != 11 || events[0].Record.Key != "/k/5" {
		t.Errorf("%d events up to revision %d, %v", len(events), revision, err)
	}
	if _, err := s.snapshot(); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = openDir(t, dir, Options{})
	if _, err := s.Watch(ctx, "/k/", 6); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("a watch from before the snapshot: %v", err)
	}
	if r := put(t, s, storage.Write{Key: "/k/new"}); r.Revision != 12 {
		t.Errorf("the next revision is %d", r.Revision)
	}
}

// TestExpired opens a directory with a record that has expired meanwhile.
func TestExpired(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{})
	put(t, s, storage.Write{Key: "/k", Expires: time.Now().Add(time.Millisecond)})
	closeStore(t, s)
	s = openDir(t, dir, Options{})
	defer closeStore(t, s)
	w, err := s.Watch(ctx, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for {
		events, _, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(events) > 0 && events[len(events)-1].Type == storage.Deleted {
			return
		}
		<-w.Ready()
	}
}

func TestRefused(t *testing.T) {
	t.Run("in use", func(t *testing.T) {
		dir := t.TempDir()
		s := openDir(t, dir, Options{})
		defer closeStore(t, s)
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
			t.Errorf("a second store: %v", err)
		}
	})
	for _, test := range []struct {
		name, file, content string
		want                error
	}{
		{"another program's", "data.db", "x", ErrForeign},
		{"newer", formatFile, "Flyball data directory, format 2\n", ErrFormat},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, test.file), []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			before, _ := (osFiles{dir: dir}).List()
			if _, err := Open(dir, Options{}); !errors.Is(err, test.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if after, _ := (osFiles{dir: dir}).List(); !slices.Equal(before, after) {
				t.Errorf("the directory has %q, and had %q", after, before)
			}
		})
	}
	t.Run("a file", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(name, Options{}); err == nil {
			t.Error("no error")
		}
	})
}

// prepared returns a disk with a snapshot and log files, and what the store has.
func prepared(t *testing.T) (*disk, []string) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 3))
	d := newDisk(random)
	s, err := open(d, "disk", small)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		put(t, s, storage.Write{Key: fmt.Sprintf("/k/%d", i%4), Value: []byte(strings.Repeat("value ", 20*i)), If: storage.Any})
		if i == 5 {
			if _, err := s.snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := state(t, s)
	closeStore(t, s)
	return d, want
}

// reopened returns what a store has that is opened on a disk, or the error.
func reopened(t *testing.T, d *disk) ([]string, error) {
	t.Helper()
	s, err := open(d, "disk", small)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return state(t, s), nil
}

// TestDamage flips each byte of a directory, and cuts each file at each length: the store has what it had, or is
// refused with an error that names the file.
func TestDamage(t *testing.T) {
	d, want := prepared(t)
	var harmless, refused int
	check := func(what, name string, damage func(n *inode)) {
		damaged := d.clone()
		damage(damaged.names[name])
		switch got, err := reopened(t, damaged); {
		case err == nil && slices.Equal(got, want):
			harmless++
		case err == nil:
			t.Errorf("%s of %s: the store has %q", what, name, got)
		case !strings.Contains(err.Error(), name):
			t.Errorf("%s of %s: %v", what, name, err)
		default:
			refused++
		}
	}
	for name, n := range d.names {
		for i := range n.content {
			check(fmt.Sprintf("byte %d", i), name, func(n *inode) { n.content[i] ^= byte(1 + i%255) })
		}
		for i := range n.content {
			check(fmt.Sprintf("the first %d bytes", i), name, func(n *inode) { n.content = n.content[:i] })
		}
	}
	if harmless == 0 || refused == 0 {
		t.Errorf("%d harmless, %d refused", harmless, refused)
	}
}

// TestRepair repairs directories that are damaged in each byte of each frame's beginning. What Repair keeps is
// a part of what there was, and the store goes on at a later revision.
func TestRepair(t *testing.T) {
	d, _ := prepared(t)
	repaired := 0
	for name, n := range d.names {
		for i := 0; i < len(n.content); i += 7 {
			damaged := d.clone()
			damaged.names[name].content[i] ^= 0x55
			if _, err := reopened(t, damaged); err == nil || name == formatFile {
				continue
			}
			report, err := repair(damaged, slices.Collect(keysOf(damaged)))
			if err != nil || len(report.Damage) == 0 {
				t.Fatalf("byte %d of %s: %+v, %v", i, name, report, err)
			}
			s, err := open(damaged, "disk", small)
			if err != nil {
				t.Fatalf("byte %d of %s, after the repair: %v", i, name, err)
			}
			got := state(t, s)
			if r := put(t, s, storage.Write{Key: "/new"}); r.Revision < snapshot.Next(0) {
				t.Errorf("byte %d of %s: the next revision is %d", i, name, r.Revision)
			}
			closeStore(t, s)
			if strings.HasPrefix(name, logPrefix) && len(got) < 2 {
				t.Errorf("byte %d of %s: nothing is left", i, name)
			}
			again, err := repair(damaged, slices.Collect(keysOf(damaged)))
			if err != nil || len(again.Damage) > 0 || again.Records != len(got) {
				t.Errorf("byte %d of %s, a second repair: %+v, %v", i, name, again, err)
			}
			repaired++
		}
	}
	if repaired == 0 {
		t.Error("nothing was repaired")
	}
}

// TestCheck checks directories of the operating system.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if _, err := Check(dir); err == nil || !strings.Contains(err.Error(), "not a data directory") {
		t.Errorf("an empty directory: %v", err)
	}
	s := openDir(t, dir, Options{})
	if _, err := Check(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a directory in use: %v", err)
	}
	put(t, s, storage.Write{Key: "/k"})
	closeStore(t, s)
	if report, err := Check(dir); err != nil || report.Records != 1 || report.Revision != 2 || report.Logs != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	name := filepath.Join(dir, fileName(logPrefix, 2))
	if err := os.Truncate(name, 100); err != nil {
		t.Fatal(err)
	}
	var damage *DamageError
	if _, err := Check(dir); !errors.As(err, &damage) || damage.File != name {
		t.Errorf("a short file: %v", err)
	}
	if report, err := Repair(dir); err != nil || len(report.Damage) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := Check(dir); err != nil {
		t.Errorf("after the repair: %v", err)
	}
}

// TestFormatFile damages and removes the format file. The records are intact, so nothing of them is lost, and the revision
// goes on.
func TestFormatFile(t *testing.T) {
	for name, damage := range map[string]func(file string) error{
		"damaged": func(file string) error { return os.WriteFile(file, []byte("Flyball data directory, forma"), 0o600) },
		"empty":   func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openDir(t, dir, Options{})
			put(t, s, storage.Write{Key: "/k"})
			want := state(t, s)
			closeStore(t, s)
			if err := damage(filepath.Join(dir, formatFile)); err != nil {
				t.Fatal(err)
			}
			var damaged *DamageError
			if _, err := Open(dir, Options{}); !errors.As(err, &damaged) {
				t.Errorf("Open: %v", err)
			}
			if report, err := Check(dir); !errors.As(err, &damaged) || damaged.File != filepath.Join(dir, formatFile) || report.Records != 1 {
				t.Errorf("Check: %+v, %v", report, err)
			}
			if report, err := Repair(dir); err != nil || len(report.Damage) != 1 || report.Records != 1 || report.Revision != 2 {
				t.Errorf("Repair: %+v, %v", report, err)
			}
			if report, err := Check(dir); err != nil || report.Records != 1 {
				t.Errorf("after the repair: %+v, %v", report, err)
			}
			s = openDir(t, dir, Options{})
			defer closeStore(t, s)
			if got := state(t, s); !slices.Equal(got, want) {
				t.Errorf("after the repair, the store has %q, and had %q", got, want)
			}
		})
	}
}

// TestNoDirectory names no directory. It is not the working directory.
func TestNoDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	_, opened := Open("", Options{})
	_, checked := Check("")
	_, repaired := Repair("")
	for _, err := range []error{opened, checked, repaired} {
		if err == nil || err.Error() != "the data directory has no name" {
			t.Errorf("error %v", err)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("the working directory has %v, %v", entries, err)
	}
}

// TestMissingFile removes each file of a directory.
func TestMissingFile(t *testing.T) {
	d, want := prepared(t)
	for name := range d.names {
		if logs := logNames(slices.Collect(keysOf(d))); name == logs[len(logs)-1] {
			continue // no other file tells how far the log went
		}
		damaged := d.clone()
		delete(damaged.names, name)
		if got, err := reopened(t, damaged); err == nil && !slices.Equal(got, want) {
			t.Errorf("without %s the store has %q", name, got)
		}
	}
}

func keysOf(d *disk) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range d.names {
			if !yield(name) {
				return
			}
		}
	}
}

// TestFullDisk fills a disk: writes fail, reads go on, and with space writes do.
func TestFullDisk(t *testing.T) {
	for space := range 120 {
		d := newDisk(rand.New(rand.NewPCG(uint64(space), 4)))
		d.space, d.sparse = 20+space/2, space%2 == 0
		s, err := open(d, "disk", small)
		if err != nil {
			t.Fatal(err)
		}
		var full error
		var last *storage.Record
		for i := 0; full == nil; i++ {
			var r *storage.Record
			if r, full = s.Put(ctx, storage.Write{Key: "/k", Value: make([]byte, 300+i), If: storage.Any}); full == nil {
				last = r
			}
		}
		if !errors.Is(full, storage.ErrNoSpace) || !strings.Contains(full.Error(), "disk") {
			t.Fatalf("space %d: %v", space, full)
		}
		if last != nil {
			if r, err := s.Get(ctx, "/k"); err != nil || r.Revision != last.Revision {
				t.Errorf("space %d: after the failure, Get returns %v, %v, want revision %d", space, r, err, last.Revision)
			}
		}
		if err := s.Healthy(); !errors.Is(err, storage.ErrNoSpace) {
			t.Errorf("space %d: Healthy returns %v", space, err)
		}
		before := state(t, s)
		if got, err := reopened(t, d.clone()); err != nil || !slices.Equal(got, before) {
			t.Errorf("space %d: opened again, the store has %q, %v, want %q", space, got, err, before)
		}
		d.setSpace(-1)
		if err := s.Healthy(); err != nil {
			t.Errorf("space %d: with space, Healthy returns %v", space, err)
		}
		put(t, s, storage.Write{Key: "/k", If: storage.Any})
		before = state(t, s)
		closeStore(t, s)
		if got, err := reopened(t, d); err != nil || !slices.Equal(got, before) {
			t.Errorf("space %d: opened after the recovery, the store has %q, %v, want %q", space, got, err, before)
		}
	}
}

// TestFailedSync checks that after a failed Sync nothing is acknowledged any more.
func TestFailedSync(t *testing.T) {
	d := newDisk(rand.New(rand.NewPCG(1, 5)))
	s, err := open(failingFiles{d}, "disk", small)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, storage.Write{Key: "/a"})
	failSync = true
	defer func() { failSync = false }()
	if _, err := s.Put(ctx, storage.Write{Key: "/b"}); err == nil {
		t.Error("a write was acknowledged that is not durable")
	}
	failSync = false
	if _, err := s.Put(ctx, storage.Write{Key: "/c"}); err == nil {
		t.Error("a write was acknowledged after a failed Sync")
	}
	if _, err := s.Get(ctx, "/a"); err != nil {
		t.Error(err)
	}
	if s.Healthy() == nil {
		t.Error("the store is healthy")
	}
}

// failSync makes the Sync of failingFiles fail.
var failSync bool

type failingFiles struct{ *disk }

func (f failingFiles) Create(name string) (file, error) {
	file, err := f.disk.Create(name)
	return failingFile{file}, err
}

type failingFile struct{ file }

func (f failingFile) Sync() error {
	if failSync {
		return errors.New("input/output error")
	}
	return f.file.Sync()
}

func BenchmarkPut(b *testing.B) {
	value := make([]byte, 3000)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	run := func(name string, s storage.Store) {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := s.Put(ctx, storage.Write{Key: fmt.Sprint(rand.IntN(10000)), Value: value, If: storage.Any}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	run("directory", s)
	m := memory.New(memory.Options{})
	defer m.Close()
	run("memory", m)
}
