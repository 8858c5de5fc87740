package envtest

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// manifest is one document of a file.
type manifest struct {
	metav1.TypeMeta
	file     string
	position int // in the file, from 1
	content  []byte
}

// decode decodes a manifest.
func (m *manifest) decode(into any) error {
	if err := sigsyaml.Unmarshal(m.content, into); err != nil {
		return m.errorf("correct it: %w", err)
	}
	return nil
}

// errorf returns an error about a manifest.
func (m *manifest) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: document %d: %w", m.file, m.position, fmt.Errorf(format, args...))
}

// extensions are the extensions of the files that are read.
var extensions = []string{".json", ".yaml", ".yml"}

// readManifests reads a file, or the files of a directory but not of those below it. The field of
// the options that has the path is for errors.
func readManifests(field, path string) ([]manifest, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, missing(field, err)
	}
	files := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("the directory in %s cannot be read: %w", field, err)
		}
		files = files[:0]
		for _, entry := range entries {
			if !entry.IsDir() {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	var all []manifest
	for _, file := range files {
		if !slices.Contains(extensions, filepath.Ext(file)) {
			continue
		}
		read, err := readFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, read...)
	}
	return all, nil
}

// missing adds the remedy to an error of os.Stat, which os.IsNotExist still recognizes.
func missing(field string, err error) error {
	if pathErr, ok := err.(*fs.PathError); ok && errors.Is(err, fs.ErrNotExist) {
		directory, _ := os.Getwd()
		return &fs.PathError{Op: fmt.Sprintf("correct the path in %s, which if relative begins at %s: %s", field, directory, pathErr.Op),
			Path: pathErr.Path, Err: pathErr.Err}
	}
	return fmt.Errorf("the path in %s cannot be read: %w", field, err)
}

// readFile reads the documents of a file.
func readFile(file string) ([]manifest, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []manifest
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for position := 1; ; position++ {
		document, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		m := manifest{file: file, position: position, content: document}
		if err := m.decode(&m.TypeMeta); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
}

// union returns the distinct elements of two lists.
func union(a, b []string) []string {
	var all []string
	for _, element := range slices.Concat(a, b) {
		if !slices.Contains(all, element) {
			all = append(all, element)
		}
	}
	return all
}

// findKubectl returns the path of kubectl, or "" for that in PATH.
func findKubectl(directory string) string {
	if path := os.Getenv("TEST_ASSET_KUBECTL"); path != "" {
		return path
	}
	if directory = cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), directory); directory != "" {
		if path, err := exec.LookPath(filepath.Join(directory, "kubectl")); err == nil {
			return path
		}
	}
	return ""
}

// DefaultBinaryAssetsIndexURL is where controller-runtime finds binaries to download. It has no
// effect.
var DefaultBinaryAssetsIndexURL = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"

// SetupEnvtestDefaultBinaryAssetsDirectory returns the directory in which setup-envtest stores
// binaries, in which kubectl may be found too.
func SetupEnvtestDefaultBinaryAssetsDirectory() (string, error) {
	data, err := dataDirectory()
	if err != nil {
		return "", err
	}
	return filepath.Join(data, "k8s"), nil
}
