package memfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"flyball.dev/controllers/pods/runtime"
)

func newFS(t *testing.T, mounts ...Mount) *FS {
	t.Helper()
	f, err := NewDisk(1<<20, nil).NewFS(nil, mounts...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func volume(t *testing.T, d *Disk, files map[string]string) *Volume {
	t.Helper()
	v, err := d.NewVolume()
	if err != nil {
		t.Fatal(err)
	}
	set(t, v, files)
	return v
}

func set(t *testing.T, v *Volume, files map[string]string) {
	t.Helper()
	content := map[string]Content{}
	for name, text := range files {
		content[name] = Content{Data: []byte(text), Mode: 0o644}
	}
	if err := v.Set(content); err != nil {
		t.Fatal(err)
	}
}

func write(f runtime.FS, name, text string) error {
	o, err := f.OpenFile(name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(o, text)
	return errors.Join(err, o.Close())
}

func read(f runtime.FS, name string) (string, error) {
	o, err := f.OpenFile(name, syscall.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer o.Close()
	b, err := io.ReadAll(o)
	return string(b), err
}

// opened adapts a file system to package fs.
type opened struct{ *FS }

func (o opened) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return o.OpenFile("/"+name, syscall.O_RDONLY, 0)
}

func TestIsAFileSystem(t *testing.T) {
	f := newFS(t)
	for _, name := range []string{"/tmp/a", "/tmp/b c", "/etc/passwd"} {
		if err := write(f, name, "text of "+name); err != nil {
			t.Fatal(err)
		}
	}
	sub, err := fs.Sub(opened{f}, "tmp")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(sub, "a", "b c"); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	d := NewDisk(1<<20, nil)
	readOnly := volume(t, d, map[string]string{"key": "value", "dir/key": "v"})
	f, err := d.NewFS(nil, Mount{Path: "/config", Volume: readOnly, ReadOnly: true}, Mount{Path: "/config/inner", Volume: volume(t, d, nil)})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{write(f, "/tmp/file", "x"), f.Mkdir("/tmp/dir", 0o755), write(f, "/tmp/dir/file", "y"),
		f.Symlink("loop", "/tmp/loop"), f.Symlink("/tmp/dir", "/tmp/link"), f.Symlink("missing", "/tmp/dangling"), f.Mkdir("/tmp/dir/sub", 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(name string, flag int) error { _, err := f.OpenFile(name, flag, 0o644); return err }
	for _, tt := range []struct {
		what string
		got  error
		want error
	}{
		{"open a missing file", open("/tmp/none", syscall.O_RDONLY), fs.ErrNotExist},
		{"open below a file", open("/tmp/file/none", syscall.O_RDONLY), syscall.ENOTDIR},
		{"write a folder", open("/tmp/dir", syscall.O_WRONLY), syscall.EISDIR},
		{"create an existing file", open("/tmp/file", syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL), fs.ErrExist},
		{"follow a loop", open("/tmp/loop", syscall.O_RDONLY), syscall.ELOOP},
		{"read a dangling link", open("/tmp/dangling", syscall.O_RDONLY), fs.ErrNotExist},
		{"write in a read-only volume", write(f, "/config/key", "x"), syscall.EROFS},
		{"create in a read-only volume", write(f, "/config/new", "x"), syscall.EROFS},
		{"mkdir in a read-only volume", f.Mkdir("/config/new", 0o755), syscall.EROFS},
		{"remove from a read-only volume", f.Remove("/config/key"), syscall.EROFS},
		{"chmod in a read-only volume", f.Chmod("/config/key", 0o600), syscall.EROFS},
		{"rename into a read-only volume", f.Rename("/tmp/file", "/config/key"), syscall.EROFS},
		{"write in a volume in a read-only volume", write(f, "/config/inner/x", "x"), nil},
		{"remove a mount", f.Remove("/config/inner"), syscall.EBUSY},
		{"rename a mount", f.Rename("/config", "/c"), syscall.EBUSY},
		{"remove the root", f.Remove("/"), syscall.EBUSY},
		{"remove a full folder", f.Remove("/tmp/dir"), syscall.ENOTEMPTY},
		{"rename a folder into itself", f.Rename("/tmp/dir", "/tmp/dir/sub/x"), syscall.EINVAL},
		{"rename a folder into itself by a link", f.Rename("/tmp/dir", "/tmp/link/sub/x"), syscall.EINVAL},
		{"rename a file onto a folder", f.Rename("/tmp/file", "/tmp/dir"), syscall.EISDIR},
		{"rename a folder onto a file", f.Rename("/tmp/dir", "/tmp/file"), syscall.ENOTDIR},
		{"rename a missing file", f.Rename("/tmp/none", "/tmp/x"), fs.ErrNotExist},
		{"rename between disks", f.Rename("/tmp/file", "/tmp/file"), nil},
		{"readlink of a file", func() error { _, err := f.Readlink("/tmp/file"); return err }(), syscall.EINVAL},
		{"list a file", func() error { _, err := f.ReadDir("/tmp/file"); return err }(), syscall.ENOTDIR},
		{"leave the root", open("/../../../tmp/file", syscall.O_RDONLY), nil},
		{"write /dev/full", write(f, "/dev/full", "x"), syscall.ENOSPC},
		{"write /dev/null", write(f, "/dev/null", "x"), nil},
	} {
		if !errors.Is(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
		if pe := (*fs.PathError)(nil); tt.got != nil && !errors.As(tt.got, &pe) {
			t.Errorf("%s: %T", tt.what, tt.got)
		}
	}
	if err := f.Symlink("../../../../../tmp/file", "/tmp/dir/up"); err != nil {
		t.Fatal(err)
	}
	if text, err := read(f, "/tmp/dir/up"); text != "x" {
		t.Errorf("a link that goes above the root reads %q, %v", text, err)
	}
	if _, err := NewDisk(1<<20, nil).NewFS(nil, Mount{Path: "/", Volume: readOnly}); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a mount of the root: %v", err)
	}
}

func TestVolumes(t *testing.T) {
	d := NewDisk(1<<20, nil)
	config := volume(t, d, map[string]string{"a": "1", "b/c": "2"})
	shared := volume(t, d, nil)
	first, err := d.NewFS(nil, Mount{Path: "/shared", Volume: shared}, Mount{Path: "/etc/config", Volume: config, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	second, err := d.NewFS(nil, Mount{Path: "/data/deep", Volume: shared}, Mount{Path: "/etc/a.conf", Volume: config, SubPath: "a"},
		Mount{Path: "/sub", Volume: shared, SubPath: "x/y"})
	if err != nil {
		t.Fatal(err)
	}
	if err := write(first, "/shared/file", "hello"); err != nil {
		t.Fatal(err)
	}
	if err := write(second, "/sub/z", "deep"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		fs         *FS
		name, want string
	}{{second, "/data/deep/file", "hello"}, {first, "/shared/x/y/z", "deep"}, {first, "/etc/config/b/c", "2"}, {second, "/etc/a.conf", "1"}} {
		if text, err := read(tt.fs, tt.name); text != tt.want {
			t.Errorf("%s: %q, %v", tt.name, text, err)
		}
	}
	object := []byte("object")
	if err := shared.Set(map[string]Content{"o": {Data: object, Mode: 0o400}}); err != nil {
		t.Fatal(err)
	}
	o, _ := first.OpenFile("/shared/o", syscall.O_WRONLY, 0)
	o.Write([]byte("x"))
	if string(object) != "object" {
		t.Errorf("a write to a file changed the object to %q", object)
	}
	set(t, config, map[string]string{"a": "changed", "new/key": "3"})
	names := []string{}
	for _, e := range must(first.ReadDir("/etc/config")) {
		names = append(names, e.Name())
	}
	if text, _ := read(first, "/etc/config/a"); text != "changed" || !slices.Equal(names, []string{"a", "new"}) {
		t.Errorf("after the update: %q, %q", text, names)
	}
	if text, _ := read(second, "/etc/a.conf"); text != "1" {
		t.Errorf("a file that is mounted by subPath has changed to %q", text)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSizeIsBounded(t *testing.T) {
	whole := NewDisk(64<<10, nil)
	d := NewDisk(32<<10, whole)
	f := must(d.NewFS(nil))
	empty := d.Used()
	if err := write(f, "/tmp/a", strings.Repeat("x", 40<<10)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a large write: %v", err)
	}
	o := must(f.OpenFile("/tmp/b", syscall.O_RDWR|syscall.O_CREAT, 0o644))
	o.Seek(1<<40, io.SeekStart)
	if _, err := o.Write([]byte("x")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write far behind the end: %v", err)
	}
	if err := o.Truncate(1 << 40); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a large truncate: %v", err)
	}
	made := 0
	for ; f.Mkdir(fmt.Sprint("/tmp/d", made), 0o755) == nil; made++ {
	}
	if made == 0 || made > 32<<10/nodeSize {
		t.Errorf("%d folders were made", made)
	}
	for i := range made {
		if err := f.Remove(fmt.Sprint("/tmp/d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/tmp/a", "/tmp/b"} {
		if err := f.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if d.Used() != empty || whole.Used() != empty {
		t.Errorf("%d bytes are used after everything was removed, %d by all disks, and %d before", d.Used(), whole.Used(), empty)
	}
	if d.Release(); whole.Used() != 0 {
		t.Errorf("%d bytes are used after the release", whole.Used())
	}
}

// TestRandomOperations compares a file system with a model, which is a map from paths.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		f := newFS(t)
		model := map[string]string{"/tmp": "dir"} // files have the prefix "="
		name := func() string {
			p := "/tmp"
			for range 1 + r.IntN(3) {
				p += "/" + string(rune('a'+r.IntN(3)))
			}
			return p
		}
		empty := func(n string) bool {
			for k := range model {
				if strings.HasPrefix(k, n+"/") {
					return false
				}
			}
			return true
		}
		for range 300 {
			n, m := name(), name()
			var err error
			ok := false
			switch op := r.IntN(5); op {
			case 0:
				err = f.Mkdir(n, 0o755)
				if ok = model[path.Dir(n)] == "dir" && model[n] == ""; ok {
					model[n] = "dir"
				}
			case 1:
				text := "=" + fmt.Sprint(r.IntN(100))
				err = write(f, n, text)
				if ok = model[path.Dir(n)] == "dir" && model[n] != "dir"; ok {
					model[n] = text
				}
			case 2:
				err = f.Remove(n)
				if ok = model[n] != "" && empty(n); ok {
					delete(model, n)
				}
			case 3:
				err = f.Rename(n, m)
				from, to := model[n], model[m]
				ok = from != "" && model[path.Dir(m)] == "dir" && !strings.HasPrefix(m, n+"/") &&
					(to == "" || n == m || (from == "dir") == (to == "dir") && empty(m))
				if ok && n != m {
					for k, v := range model {
						if k == n || strings.HasPrefix(k, n+"/") {
							delete(model, k)
							model[m+k[len(n):]] = v
						}
					}
				}
			case 4:
				text, e := read(f, n)
				err = e
				if ok = strings.HasPrefix(model[n], "="); ok && text != model[n] {
					t.Fatalf("seed %d: %s has %q, not %q", seed, n, text, model[n])
				}
			}
			if ok != (err == nil) {
				t.Fatalf("seed %d: %s %s: %v, but the model says %v", seed, n, m, err, ok)
			}
		}
		found := map[string]string{}
		fs.WalkDir(opened{f}, "tmp", func(p string, e fs.DirEntry, err error) error {
			found["/"+p] = "dir"
			if !e.IsDir() {
				found["/"+p] = must(read(f, "/"+p))
			}
			return err
		})
		if fmt.Sprint(found) != fmt.Sprint(model) {
			t.Fatalf("seed %d:\n%v\nmodel\n%v", seed, found, model)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	d := NewDisk(1<<20, nil)
	v := volume(t, d, nil)
	var wg sync.WaitGroup
	for i := range 4 {
		f := must(d.NewFS(nil, Mount{Path: "/v", Volume: v}))
		wg.Go(func() {
			for j := range 200 {
				n := fmt.Sprint("/v/", j%5)
				f.Mkdir(n, 0o755)
				write(f, n+"/file", strings.Repeat("x", i*100))
				f.Rename(n, fmt.Sprint("/v/", (j+1)%5, "/in"))
				f.ReadDir("/v")
				f.Remove(n + "/file")
				f.Remove(n)
			}
		})
	}
	wg.Wait()
}

func TestChanges(t *testing.T) {
	f := newFS(t)
	o := must(f.OpenFile("/tmp/log", syscall.O_RDWR|syscall.O_CREAT|syscall.O_APPEND, 0o644)).(*file)
	changed := o.Changes()
	select {
	case <-changed:
		t.Fatal("changed before a write")
	default:
	}
	o.Write([]byte("x"))
	<-changed
	if must(f.OpenFile("/dev/null", syscall.O_RDONLY, 0)).(*file).Changes() != nil {
		t.Error("a device changes")
	}
	var b bytes.Buffer
	o.Seek(0, io.SeekStart)
	if io.Copy(&b, o); b.String() != "x" {
		t.Errorf("read %q", b.String())
	}
}

// TestImageFiles: volumes hide the files of an image, and /proc/mounts has the volumes.
func TestImageFiles(t *testing.T) {
	d := NewDisk(1<<20, nil)
	image := map[string]Content{"/app": {Data: []byte("app"), Mode: 0o755}, "/a/b/c": {Data: []byte("c"), Mode: 0o644}, "/data/hidden": {Data: []byte("h"), Mode: 0o600}}
	f, err := d.NewFS(image, Mount{Path: "/data", Volume: volume(t, d, map[string]string{"x": "y"}), ReadOnly: true, Kind: "tmpfs"}, Mount{Path: "/with space", Volume: volume(t, d, nil)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/app": "app", "/a/b/c": "c", "/data/x": "y",
		"/proc/mounts": "overlay / overlay rw 0 0\ntmpfs /data tmpfs ro 0 0\next4 /with\\040space ext4 rw 0 0\n"} {
		if got, err := read(f, name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := read(f, "/data/hidden"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file below a volume: %v", err)
	}
	if info, err := f.Stat("/app"); err != nil || info.Mode() != 0o755 {
		t.Errorf("the mode of a program: %v, %v", info, err)
	}
	if err := write(f, "/app", "changed"); err != nil {
		t.Error(err)
	}
	if string(image["/app"].Data) != "app" {
		t.Error("a container has changed the image")
	}
	if _, err := d.NewFS(map[string]Content{"/a": {}, "/a/b": {}}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file below a file: %v", err)
	}
}
