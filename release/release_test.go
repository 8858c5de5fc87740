package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	_ "flyball.dev/internal/orphans"
)

// repository returns a git repository with a small program, at a tag unless that is "".
func repository(t *testing.T, tag string) options {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{
		"go.mod":            "module example.com/hello\n\ngo 1.26\n",
		"cmd/hello/main.go": "package main\n\nfunc main() { println(\"hello\") }\n",
	}
	for path, content := range files {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commands := [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "hello"}}
	if tag != "" {
		commands = append(commands, []string{"tag", tag})
	}
	for _, args := range commands {
		cmd := exec.Command("git", args...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	return options{source: folder, pkg: "./cmd/hello", output: filepath.Join(t.TempDir(), "dist"),
		platforms: []string{"linux/" + runtime.GOARCH, "windows/" + runtime.GOARCH}}
}

// TestRelease: everything of a release is there, the same bytes each time, and is what it says.
func TestRelease(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	o := repository(t, "v1.2.3")
	o.push = strings.TrimPrefix(server.URL, "http://") + "/hello"
	if err := release(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	base := "hello_1.2.3_linux_" + runtime.GOARCH
	want := []string{"checksums.txt", base + ".cdx.json", base + ".tar.gz", "hello_1.2.3_windows_" + runtime.GOARCH + ".cdx.json",
		"hello_1.2.3_windows_" + runtime.GOARCH + ".zip", "image"}
	if got := names(t, o.output); !slices.Equal(got, want) {
		t.Errorf("the release is %q, want %q", got, want)
	}
	sums := read(t, o.output, "checksums.txt")
	for _, name := range want[1 : len(want)-1] {
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(read(t, o.output, name))), name); !strings.Contains(sums, line) {
			t.Errorf("the checksums have no %q", line)
		}
	}
	testSBOM(t, filepath.Join(o.output, base+".cdx.json"))
	testArchives(t, o.output, base)
	index, err := layout.ImageIndexFromPath(filepath.Join(o.output, "image"))
	if err != nil {
		t.Fatal(err)
	}
	written, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	testImage(t, index)
	for _, tag := range []string{"v1.2.3", "latest"} {
		ref, err := name.ParseReference(o.push + ":" + tag)
		if err != nil {
			t.Fatal(err)
		}
		pushed, err := remote.Index(ref)
		if err != nil {
			t.Fatal(err)
		}
		if digest, err := pushed.Digest(); err != nil || digest != written {
			t.Errorf("%s is %v, %v; the image is %v", tag, digest, err, written)
		}
	}
	if err := release(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if again := read(t, o.output, "checksums.txt"); again != sums {
		t.Errorf("the second release is\n%s\nand the first was\n%s", again, sums)
	}
}

func testSBOM(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(f, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Name != "example.com/hello" || c.Version != "v1.2.3" {
		t.Errorf("the SBOM is of %s %s", c.Name, c.Version)
	}
	if c := (*bom.Components)[0]; c.Name != "std" || c.Version != runtime.Version() {
		t.Errorf("the first component is %s %s", c.Name, c.Version)
	}
}

// testArchives runs the program in the archive for Linux, where that is this platform.
func testArchives(t *testing.T, folder, base string) {
	t.Helper()
	compressed, err := gzip.NewReader(strings.NewReader(read(t, folder, base+".tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(compressed)
	header, err := archive.Next()
	if err != nil || header.Name != "hello" || header.Mode != 0o755 {
		t.Fatalf("%+v, %v", header, err)
	}
	content, err := io.ReadAll(archive)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" {
		program := filepath.Join(t.TempDir(), "hello")
		if err := os.WriteFile(program, content, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != "hello\n" {
			t.Errorf("the program prints %q, %v", out, err)
		}
	}
	name := "hello_1.2.3_windows_" + runtime.GOARCH + ".zip"
	zipped := read(t, folder, name)
	files, err := zip.NewReader(strings.NewReader(zipped), int64(len(zipped)))
	if err != nil || len(files.File) != 1 || files.File[0].Name != "hello.exe" {
		t.Errorf("%s has %+v, %v", name, files, err)
	}
}

// testImage checks that there is one program in the image, which does not run as root.
func testImage(t *testing.T, index v1.ImageIndex) {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	if p := manifest.Manifests[0].Platform; p.String() != "linux/"+runtime.GOARCH {
		t.Errorf("the platform is %v", p)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/hello"}) || c.WorkingDir != "/home" ||
		c.Labels["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("the configuration is %+v", c)
	}
	var content bytes.Buffer
	flat := mutate.Extract(img)
	defer flat.Close()
	if _, err := io.Copy(&content, flat); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for archive := tar.NewReader(&content); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, header.Name)
	}
	if want := []string{"hello", "home", "tmp"}; !slices.Equal(paths, want) {
		t.Errorf("the image has %q, want %q", paths, want)
	}
}

// TestSnapshot: a commit without a tag, or with changes, is released as a snapshot only.
func TestSnapshot(t *testing.T) {
	untagged, changed := repository(t, ""), repository(t, "v1.2.3")
	if err := os.WriteFile(filepath.Join(changed.source, "cmd", "hello", "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]options{"untagged": untagged, "changed": changed} {
		t.Run(name, func(t *testing.T) {
			o.platforms = []string{"linux/" + runtime.GOARCH}
			if err := release(t.Context(), o); err == nil || !strings.Contains(err.Error(), "check a tag out, without changes") {
				t.Errorf("the error is %v", err)
			}
			o.snapshot = true
			if err := release(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOutputIsKept: a folder that has no release is not removed, and a snapshot is not pushed.
func TestOutputIsKept(t *testing.T) {
	o := repository(t, "v1.2.3")
	o.output = o.source
	if err := release(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has no release, and is not removed") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.source, "go.mod")); err != nil {
		t.Error(err)
	}
	o.output, o.snapshot, o.push = filepath.Join(t.TempDir(), "dist"), true, "localhost:1/hello"
	if err := release(t.Context(), o); err == nil || !strings.Contains(err.Error(), "a snapshot is not pushed") {
		t.Errorf("the error is %v", err)
	}
}

func TestBadPlatform(t *testing.T) {
	o := repository(t, "v1.2.3")
	for _, platform := range []string{"linux", "linux/none"} {
		o.platforms = []string{platform}
		if err := release(t.Context(), o); err == nil || !strings.Contains(err.Error(), platform) {
			t.Errorf("the error is %v", err)
		}
	}
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func read(t *testing.T, folder, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
