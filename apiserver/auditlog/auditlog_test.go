package auditlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	write(t, good, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
	write(t, bad, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Nonsense}]\n")
	for name, tc := range map[string]struct {
		options Options
		logs    bool
		fails   string
	}{
		"zero":                  {Options{}, false, ""},
		"without path":          {Options{PolicyFile: good}, false, ""},
		"without policy":        {Options{LogPath: filepath.Join(dir, "a.log")}, false, ""},
		"both":                  {Options{PolicyFile: good, LogPath: filepath.Join(dir, "new", "a.log")}, true, ""},
		"standard output":       {Options{PolicyFile: good, LogPath: "-"}, true, ""},
		"invalid policy":        {Options{PolicyFile: bad, LogPath: filepath.Join(dir, "a.log")}, false, "Nonsense"},
		"missing policy":        {Options{PolicyFile: dir + "/none", LogPath: filepath.Join(dir, "a.log")}, false, "loading audit policy file"},
		"only a missing policy": {Options{PolicyFile: dir + "/none"}, false, "loading audit policy file"},
		"format":                {Options{PolicyFile: good, LogPath: "-", Format: "xml"}, false, "invalid audit log format xml"},
		"negative":              {Options{MaxAge: -1}, false, "--audit-log-maxage -1 can't be a negative number"},
		"a directory":           {Options{PolicyFile: good, LogPath: dir}, false, "is a directory"},
	} {
		log, err := New(tc.options)
		if (log != nil) != tc.logs || (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("%s: %v, %v", name, log, err)
		}
		if log != nil {
			if err := log.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestRotation fills a file until it is rotated twice, with one backup to be kept and one that is
// too old.
func TestRotation(t *testing.T) { synctest.Test(t, testRotation) }

func testRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	ancient := "audit-" + time.Now().Add(-50*time.Hour).UTC().Format(backupTime) + ".log"
	for _, name := range []string{ancient, "audit-other.log", "other.log"} {
		write(t, filepath.Join(dir, name), "x")
	}
	r, err := openRotated(path, 10, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"aaaaa", "bbbbb", "ccccc", "0123456789abcdef", "d"} {
		if _, err := r.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // virtual; backups of the same millisecond would have the same name
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		name := e.Name()
		if strings.HasPrefix(name, "audit-2") {
			name = "backup"
		}
		content[name] += string(text)
	}
	want := map[string]string{"audit.log": "d", "backup": "0123456789abcdef", "audit-other.log": "x", "other.log": "x"}
	if len(content) != len(want) {
		t.Errorf("the files are %q, want %q", content, want)
	}
	for name, text := range want {
		if content[name] != text {
			t.Errorf("%s is %q, want %q", name, content[name], text)
		}
	}

	if r, err = openRotated(path, 10, 2, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write([]byte("e")); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if text, err := os.ReadFile(path); err != nil || string(text) != "de" {
		t.Errorf("opened again and appended: %q, %v", text, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
