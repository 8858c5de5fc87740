package references

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// Kubernetes is the module that references without a host are about.
const Kubernetes = "k8s.io/kubernetes"

// Release has the sources of a Kubernetes release: k8s.io/kubernetes, and the modules that its go.mod requires.
type Release struct {
	Version string

	folder  func(m module.Version) (string, error)
	modules []module.Version
	sources map[string]*source
}

// Open returns a release such as v1.37.2. Modules that are not in the module cache are downloaded, and named on progress.
func Open(version string, progress io.Writer) (*Release, error) {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return nil, err
	}
	return open(version, func(m module.Version) (string, error) {
		return download(strings.TrimSpace(string(cache)), m, progress)
	})
}

// open returns a release, with a function that returns the folder of a module.
func open(version string, folder func(module.Version) (string, error)) (*Release, error) {
	r := &Release{Version: version, folder: folder, sources: map[string]*source{}}
	kubernetes := module.Version{Path: Kubernetes, Version: version}
	dir, err := folder(kubernetes)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "go.mod")
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	requirements, err := modfile.Parse(file, content, nil)
	if err != nil {
		return nil, err
	}
	r.modules = []module.Version{kubernetes}
	for _, required := range requirements.Require {
		m := required.Mod
		if m.Version == "v0.0.0" { // published from Kubernetes' staging folder, with the release
			m.Version = "v0." + strings.TrimPrefix(version, "v1.")
		}
		r.modules = append(r.modules, m)
	}
	return r, nil
}

// download returns the folder of a module in the module cache.
func download(cache string, m module.Version, progress io.Writer) (string, error) {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, filepath.FromSlash(escaped)+"@"+m.Version)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fmt.Fprintf(progress, "downloading %s\n", m)
	cmd := exec.Command("go", "mod", "download", "-json", m.String())
	cmd.Dir = os.TempDir() // in a module, go would change go.sum
	out, err := cmd.Output()
	if _, e := os.Stat(dir); e == nil {
		return dir, nil // whether or not go is new enough to build the module
	}
	var result struct{ Dir, Error string }
	if e := json.NewDecoder(bytes.NewReader(out)).Decode(&result); e == nil && result.Error != "" {
		return "", fmt.Errorf("%s: %s", m, result.Error)
	}
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", m, err)
	}
	return result.Dir, nil
}

// NotFoundError says that a release has no declaration for a reference.
type NotFoundError struct {
	Reference Reference
	Version   string
	// Missing says what there is not.
	Missing string
	// Near is a reference to a declaration with a similar name, or empty.
	Near string
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("%s: Kubernetes %s has no %s", e.Reference, e.Version, e.Missing)
	if e.Near != "" {
		text += "; is it " + e.Near + "?"
	}
	return text
}

// Text returns the source that a reference covers, without comments. The error is a [NotFoundError] if there is no such
// declaration.
func (r *Release) Text(ref Reference) (string, error) {
	s, err := r.source(ref)
	if err != nil {
		return "", err
	}
	names := s.names(ref)
	if len(names) > 0 {
		return s.text(names), nil
	}
	missing := &NotFoundError{Reference: ref, Version: r.Version}
	if ref.File != "" {
		missing.Missing = "such file with declarations for linux"
		if near := nearest(ref.File, s.files); near != "" {
			missing.Near = Reference{Folder: ref.Folder, File: near}.String()
		}
		return "", missing
	}
	missing.Missing = "such declaration"
	if near := nearest(ref.Name, s.declarations); near != "" {
		missing.Near = Reference{Folder: ref.Folder, Name: near}.String()
	}
	return "", missing
}

// source returns the package of a reference.
func (r *Release) source(ref Reference) (*source, error) {
	m, inModule, ok := r.module(ref.Folder)
	if !ok {
		return nil, &NotFoundError{Reference: ref, Version: r.Version, Missing: "such module"}
	}
	dir, err := r.folder(m)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, filepath.FromSlash(inModule))
	if s := r.sources[folder]; s != nil {
		return s, nil
	}
	s, err := readSource(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &NotFoundError{Reference: ref, Version: r.Version, Missing: "such folder", Near: nearFolder(ref, folder)}
	}
	if err != nil {
		return nil, err
	}
	r.sources[folder] = s
	return s, nil
}

// module returns the module of a folder, and the folder's path in it.
func (r *Release) module(folder string) (m module.Version, inModule string, ok bool) {
	if first, _, _ := strings.Cut(folder, "/"); !strings.Contains(first, ".") {
		return r.modules[0], folder, true
	}
	for _, candidate := range r.modules {
		rest, found := strings.CutPrefix(folder+"/", candidate.Path+"/")
		if found && len(candidate.Path) > len(m.Path) {
			m, inModule, ok = candidate, path.Clean(rest), true
		}
	}
	return m, inModule, ok
}
