package shell_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"flyball.dev/controllers/pods/memfs"
	"flyball.dev/controllers/pods/shell"
)

// pack returns an archive with an entry for each line of a text, which has a type of archive/tar, a name and, for a link, a target.
// It leaves entries out that archive/tar cannot write.
func pack(entries string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for line := range strings.Lines(entries) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		h := &tar.Header{Typeflag: words[0][0], Name: words[1], Mode: 0o755}
		if len(words) > 2 {
			h.Linkname = words[2]
		}
		content := "from the archive"
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if w.WriteHeader(h) == nil && h.Size > 0 {
			_, _ = io.WriteString(w, content)
		}
	}
	_ = w.Close()
	return b.String()
}

// tree returns the files below a folder with their contents, besides the files below another one.
func tree(t *testing.T, f *memfs.FS, folder, except string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := f.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(folder, "/") + "/" + e.Name()
		info, err := f.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = info.Mode().String()
		switch {
		case info.IsDir() && name != except && name != "/proc":
			maps.Copy(all, tree(t, f, name, except))
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := f.Readlink(name)
			all[name] += " " + to
		case info.Mode().IsRegular():
			file, err := f.OpenFile(name, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(io.LimitReader(file, 1000))
			if err != nil {
				t.Fatal(err)
			}
			all[name] += fmt.Sprintf(" %q %v", b, info.ModTime())
			file.Close()
		}
	}
	return all
}

// extract extracts an archive in the folder /w/in, and returns its files. It is an error if something outside of the folder changes.
func extract(t *testing.T, archive string) (inside map[string]string, r result) {
	t.Helper()
	s, f := shell.New(shell.Options{}), newFS(t)
	if made := execute(t, s, f, "", "sh", "-c", "mkdir -p /w/in/old /w/out; echo kept | tee /etc/kept /w/kept > /w/out/kept"); made.code != 0 {
		t.Fatal(made)
	}
	before := tree(t, f, "/", "/w/in")
	r = execute(t, s, f, archive, "tar", "-xmf", "-", "-C", "/w/in")
	after := tree(t, f, "/", "/w/in")
	for name, want := range before {
		if after[name] != want {
			t.Errorf("outside of the folder, %s is %q, and was %q", name, after[name], want)
		}
		delete(after, name)
	}
	if len(after) > 0 {
		t.Errorf("the archive has made files outside of the folder: %v", after)
	}
	return tree(t, f, "/w/in", ""), r
}

// escapes are archives that a naive tar extracts elsewhere, and a file that is there afterwards.
var escapes = map[string]struct{ archive, file string }{
	"dots":            {"0 ../../../etc/evil", "/w/in/etc/evil"},
	"dots within":     {"0 a/../../../etc/evil", "/w/in/etc/evil"},
	"absolute":        {"0 /etc/kept", "/w/in/etc/kept"},
	"folder":          {"5 ../../etc/evil/", "/w/in/etc/evil"},
	"absolute parent": {"2 up /etc\n0 up/kept", "/w/in/up/kept"},
	"relative parent": {"2 up ../out\n0 up/kept\n5 up/new", "/w/in/up/kept"},
	"dots in a name":  {"2 up a..b\n0 new", "/w/in/new"},
	"deep parent":     {"2 a/b/up ../../../out\n0 a/b/up/kept", "/w/in/a/b/up/kept"},
	"two links":       {"2 b a\n2 a ../out\n0 b/kept\n0 new", "/w/in/new"},
	"file over link":  {"2 up /etc/kept\n0 up", "/w/in/up"},
	"link over link":  {"2 up /etc\n2 up /w/out\n2 up/new /etc", "/w/in/up/new"},
	"hard link":       {"1 up /etc/kept\n0 up", "/w/in/up"},
	"hard parent":     {"1 up ../../etc\n0 up/kept", "/w/in/up/kept"},
	"devices":         {"3 ../../etc/evil\n4 /etc/evil\n6 ../evil\n0 new", "/w/in/new"},
}

// TestArchivesStayInTheirFolder: no entry of an archive leaves the folder, neither by its name nor by a link of the archive.
func TestArchivesStayInTheirFolder(t *testing.T) {
	for name, tt := range escapes {
		t.Run(name, func(t *testing.T) {
			inside, r := extract(t, pack(tt.archive))
			if _, ok := inside[tt.file]; !ok {
				t.Errorf("%s is missing in %v; %+v", tt.file, inside, r)
			}
		})
	}
	inside, r := extract(t, pack("2 etc /etc\n2 near old\n0 near/new\n2 up ../..\n2 old/deep ../../out"))
	if inside["/w/in/etc"] != "Lrwxrwxrwx /etc" || inside["/w/in/up"] != "Lrwxrwxrwx ../.." || inside["/w/in/old/deep"] != "Lrwxrwxrwx ../../out" || inside["/w/in/old/new"] == "" || r.code != 0 {
		t.Errorf("links that are not used are %v; %+v", inside, r)
	}
}

// FuzzTar extracts any archive: made of lines, and of bytes. No entry leaves the folder.
func FuzzTar(f *testing.F) {
	for _, tt := range escapes {
		f.Add(tt.archive, []byte(pack(tt.archive)))
	}
	f.Fuzz(func(t *testing.T, entries string, archive []byte) {
		for _, a := range []string{pack(entries), string(archive)} {
			if _, r := extract(t, a); r.code < 0 || r.code > 255 {
				t.Errorf("the exit code is %d", r.code)
			}
		}
	})
}

// TestArchiveOfLinks: the links that tar makes at the end count as memory of the process, so an archive of long links ends it.
func TestArchiveOfLinks(t *testing.T) {
	const memory = 16 << 10
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for i := range 10 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint("l", i), Typeflag: tar.TypeSymlink, Linkname: "/" + strings.Repeat("x", memory/2)}); err != nil {
			t.Fatal(err)
		}
	}
	s, f := shell.New(shell.Options{Limits: shell.Limits{Memory: memory}}), newFS(t)
	if r := execute(t, s, f, archive.String(), "tar", "xf", "-", "-C", "/tmp"); r.code == 0 || !strings.Contains(r.err, "tar: the input has more than 65536 bytes") {
		t.Errorf("many long links: %+v", r)
	}
	if r := execute(t, s, f, pack("2 up ../..\n2 etc /etc"), "tar", "xf", "-", "-C", "/tmp"); r.code != 0 {
		t.Errorf("two links: %+v", r)
	}
}
