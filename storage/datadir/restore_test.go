package datadir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/snapshot"
)

// taken returns a snapshot of a store, and its records.
func taken(t *testing.T, s storage.Store) (file string, want []string) {
	t.Helper()
	page, err := s.Range(ctx, storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := snapshot.Write(&buf, snapshot.Header{Revision: page.Revision}, page.Records); err != nil {
		t.Fatal(err)
	}
	return fileWith(t, buf.Bytes()), state(t, s)[1:]
}

// fileWith returns the name of a file with a content.
func fileWith(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRestore(t *testing.T) {
	from := openDir(t, t.TempDir(), small)
	put(t, from, storage.Write{Key: "/a", Value: []byte("1")})
	put(t, from, storage.Write{Key: "/a", Value: []byte("2"), If: storage.Any})
	last := put(t, from, storage.Write{Key: "/b", Expires: time.Now().Add(time.Hour)})
	file, want := taken(t, from)
	closeStore(t, from)

	dir := filepath.Join(t.TempDir(), "a", "b")
	report, err := Restore(dir, file, false)
	if err != nil || report.Records != 2 || report.Revision <= last.Revision {
		t.Fatalf("%+v, %v", report, err)
	}
	s := openDir(t, dir, small)
	if got := state(t, s)[1:]; !slices.Equal(got, want) {
		t.Errorf("the store has %q, want %q", got, want)
	}
	if _, err := s.Watch(ctx, "", last.Revision+5); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("a watch from a revision of the store before: %v", err)
	}
	if r := put(t, s, storage.Write{Key: "/c"}); r.Revision != report.Revision+1 {
		t.Errorf("the next revision is %d, want %d", r.Revision, report.Revision+1)
	}
	if _, err := Restore(dir, file, true); !errors.Is(err, ErrInUse) {
		t.Errorf("a directory in use: %v", err)
	}
	last = put(t, s, storage.Write{Key: "/d"})
	before := state(t, s)
	closeStore(t, s)

	if _, err := Restore(dir, file, false); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a directory with records: %v", err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cut := fileWith(t, content[:len(content)-1])
	if _, err := Restore(dir, cut, true); err == nil || !strings.Contains(err.Error(), cut+" is damaged at byte") {
		t.Errorf("a file that is cut off: %v", err)
	}
	s = openDir(t, dir, small)
	if got := state(t, s); !slices.Equal(got, before) {
		t.Errorf("after failures the store has %q, want %q", got, before)
	}
	closeStore(t, s)

	if report, err = Restore(dir, file, true); err != nil || report.Revision <= last.Revision {
		t.Fatalf("%+v after revision %d, %v", report, last.Revision, err)
	}
	s = openDir(t, dir, small)
	defer closeStore(t, s)
	if got := state(t, s)[1:]; !slices.Equal(got, want) {
		t.Errorf("after the replacement the store has %q, want %q", got, want)
	}
}

// TestRestoreRefused restores to a directory with other files, and from files that are no snapshots.
func TestRestoreRefused(t *testing.T) {
	s := openDir(t, t.TempDir(), small)
	file, _ := taken(t, s)
	closeStore(t, s)
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "data.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(foreign, file, true); !errors.Is(err, ErrForeign) {
		t.Errorf("another program's directory: %v", err)
	}
	text := fileWith(t, []byte("text"))
	absent := filepath.Join(t.TempDir(), "absent")
	if _, err := Restore(absent, text, false); !errors.Is(err, snapshot.ErrForeign) {
		t.Errorf("a text: %v", err)
	}
	if _, err := os.Stat(absent); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was created: %v", err)
	}
}

// TestRestoreCrashes crashes while a directory is replaced, after each call that writes. The directory then has the
// records of before, or the records of the snapshot.
func TestRestoreCrashes(t *testing.T) {
	from := openDir(t, t.TempDir(), small)
	put(t, from, storage.Write{Key: "/new", Value: make([]byte, 5000)})
	_, after := taken(t, from)
	page, err := from.Range(ctx, storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, from)
	old, before := prepared(t)
	var kept, restored int
	for calls := 0; ; calls++ {
		d := old.clone()
		d.left = calls
		_, err := restore(d, page.Revision, page.Records, true)
		d = d.crash()
		got, openErr := reopened(t, d)
		switch {
		case openErr != nil:
			t.Fatalf("after %d calls: %v", calls, openErr)
		case slices.Equal(got, before) && err != nil:
			kept++
		case slices.Equal(got[1:], after):
			restored++
		default:
			t.Fatalf("after %d calls the store has %q, error %v", calls, got, err)
		}
		if err == nil {
			break
		}
	}
	if kept == 0 || restored < 2 {
		t.Errorf("%d crashes left the records of before, %d the new ones", kept, restored)
	}
}
