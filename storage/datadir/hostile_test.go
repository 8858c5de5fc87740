package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/internal/frame"
)

// TestCompactionSurvivesLeases fills log files with leases after a compaction. A file without writes is replaced by the next
// one, and the compaction is still known.
func TestCompactionSurvivesLeases(t *testing.T) {
	dir, o := t.TempDir(), Options{LogFile: 4 << 10}
	s := openDir(t, dir, o)
	for range 5 {
		put(t, s, storage.Write{Key: "/k", If: storage.Any})
	}
	latest, _, err := s.Revisions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := int64(0)
	grant := func(n int) {
		t.Helper()
		for range n {
			id++
			if _, err := s.Grant(ctx, id, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	grant(200)
	if names, err := s.files.List(); err != nil || !slices.Contains(names, fileName(logPrefix, latest+1)) {
		t.Fatalf("there is no file without writes: %q, %v", names, err)
	}
	if err := s.Compact(ctx, latest); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		grant(100)
		closeStore(t, s)
		s = openDir(t, dir, o)
		if now, oldest, err := s.Revisions(ctx); err != nil || now != latest || oldest != latest {
			t.Errorf("with %d leases, the revisions are %d and %d, %v; want %d", id, now, oldest, err, latest)
		}
	}
	leases, err := s.Leases(ctx)
	if err != nil || len(leases) != int(id) {
		t.Errorf("there are %d leases, %v; want %d", len(leases), err, id)
	}
	put(t, s, storage.Write{Key: "/k", If: storage.Any})
	closeStore(t, s)
	if _, err := Check(dir); err != nil {
		t.Error(err)
	}
}

// TestForeignDirectories opens directories of other programs, and of other versions. Nothing in them changes.
func TestForeignDirectories(t *testing.T) {
	newer := frame.Append(nil, 0, func(buf []byte) []byte { return frame.AppendNumbers(buf, 'S', frame.Format+1, 7, 0) })
	newer = append(newer, make([]byte, frame.Align(int64(len(newer)))-int64(len(newer)))...)
	newerLog := frame.Append(nil, 0, func(buf []byte) []byte { return frame.AppendNumbers(buf, kindLog, frame.Format+1, 2, 4096) })
	for _, test := range []struct {
		name  string
		files map[string]string
		want  error
		text  string
	}{
		{"etcd", map[string]string{"member/snap/db": "x", "member/wal/0.tmp": "x"}, ErrForeign, "it has member"},
		{"a snapshot of a newer format", map[string]string{formatFile: formatText, fileName(snapshotPrefix, 7): string(newer)}, ErrFormat, fileName(snapshotPrefix, 7)},
		{"a log of a newer format", map[string]string{formatFile: formatText, fileName(logPrefix, 2): string(newerLog)}, ErrFormat, fileName(logPrefix, 2)},
		{"a kubeconfig", map[string]string{"config": "kind: Config"}, ErrForeign, "it has config"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range test.files {
				file := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, dir)
			for range 2 {
				_, err := Open(dir, Options{})
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
					t.Errorf("Open: %v; want %v with %q", err, test.want, test.text)
				}
			}
			if _, err := Restore(dir, "/dev/null", true); err == nil {
				t.Error("Restore: no error")
			}
			if after := tree(t, dir); !slices.Equal(after, before) {
				t.Errorf("the directory has %q, and had %q", after, before)
			}
		})
	}
}

// tree returns the files below a directory with their contents, but not the lock.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == lockFile {
			return err
		}
		content, err := os.ReadFile(path)
		all = append(all, path+": "+string(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
