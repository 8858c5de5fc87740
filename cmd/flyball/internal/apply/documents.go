// Package apply reads manifests and applies their objects to a cluster with server-side apply.
package apply

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	sigsjson "sigs.k8s.io/json"

	"flyball.dev/internal/manifest"
)

// Document is an object in a manifest.
type Document struct {
	// Source is the file or URL. Number is the number of the document in the source, from 1.
	Source string
	Number int
	Object *unstructured.Unstructured
}

// errorf returns an error that begins with the source and the number of the document.
func (d *Document) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: document %d: %w", d.Source, d.Number, fmt.Errorf(format, args...))
}

// Read reads the documents of files, directories, URLs, and, for "-", of stdin. In directories it reads the files
// *.yaml, *.yml and *.json, except kustomizations; it descends into subdirectories only if recursive is set. Read
// returns the errors of all documents together.
func Read(ctx context.Context, stdin io.Reader, recursive bool, names ...string) ([]*Document, error) {
	var all []*Document
	var errs []error
	for _, name := range names {
		documents, err := readSource(ctx, stdin, recursive, name)
		all, errs = append(all, documents...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no objects in %s", strings.Join(names, ", "))
	}
	return all, nil
}

// readSource reads the documents of a single name.
func readSource(ctx context.Context, stdin io.Reader, recursive bool, name string) ([]*Document, error) {
	switch {
	case name == "-":
		content, err := readAll(ctx, stdin)
		if err != nil {
			return nil, err
		}
		return parse("standard input", content)
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		content, err := fetch(ctx, name)
		if err != nil {
			return nil, err
		}
		return parse(name, content)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	files := []string{name}
	if info.IsDir() {
		if files, err = manifests(name, recursive); err != nil {
			return nil, err
		}
	}
	var all []*Document
	var errs []error
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		documents, err := parse(file, content)
		all, errs = append(all, documents...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// readAll reads until the end, or until ctx ends. A terminal or a pipe may have no input for long, and a waiting read
// cannot be interrupted; after ctx ends, it remains until the end of the process.
func readAll(ctx context.Context, r io.Reader) (content []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		content, err = io.ReadAll(r)
	}()
	select {
	case <-done:
		return content, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// manifests returns the manifest files of a directory.
func manifests(folder string, recursive bool) ([]string, error) {
	var files []string
	root := folder + string(filepath.Separator) + "." // WalkDir would not follow a symbolic link
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != root && !recursive {
				return fs.SkipDir
			}
		case strings.HasPrefix(strings.ToLower(entry.Name()), "kustomization."):
		case slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// fetch returns the content of a URL.
func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the server answered %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// parse returns the objects in a manifest. Empty documents count in the numbering, but have no objects.
func parse(source string, content []byte) ([]*Document, error) {
	var all []*Document
	var errs []error
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, errors.Join(errs...)
		}
		d := &Document{Source: source, Number: number}
		if err != nil {
			return nil, d.errorf("%w", err)
		}
		objects, err := objectsOf(text)
		if err != nil {
			errs = append(errs, d.errorf("%w", err))
		}
		for _, o := range objects {
			all = append(all, &Document{Source: source, Number: number, Object: o})
		}
	}
}

// objectsOf returns the objects in a YAML document, or in a sequence of JSON values. An empty document has none.
func objectsOf(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	var errs []error
	values, decode := [][]byte{text}, decodeYAML
	if sequence := manifest.SplitJSON(text); sequence != nil {
		values, decode = sequence, decodeJSON
	}
	for _, value := range values {
		object, err := decode(value)
		if err != nil {
			return nil, err
		}
		if len(object) == 0 {
			continue
		}
		objects, err := flatten(&unstructured.Unstructured{Object: object})
		all, errs = append(all, objects...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// decodeJSON decodes a JSON object without a field that it has twice.
func decodeJSON(text []byte) (object map[string]any, err error) {
	strict, err := sigsjson.UnmarshalStrict(text, &object, sigsjson.DisallowDuplicateFields)
	return object, errors.Join(append(strict, err)...)
}

// decodeYAML decodes a YAML mapping without a key that it has twice. A key may override one of a merged mapping.
func decodeYAML(text []byte) (object map[string]any, err error) {
	if err := manifest.CheckSingle(text); err != nil {
		return nil, err
	}
	return object, utilyaml.Unmarshal(text, &object)
}

// flatten returns the object, or the items if it is a list. The items of a list of one kind, as the API server returns it, have that kind.
func flatten(u *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if u.IsList() {
		var all []*unstructured.Unstructured
		version, kind := u.GetAPIVersion(), strings.TrimSuffix(u.GetKind(), "List")
		err := u.EachListItem(func(o runtime.Object) error {
			item := o.(*unstructured.Unstructured)
			if kind != "" && item.GetKind() == "" && item.GetAPIVersion() == "" {
				item.SetAPIVersion(version)
				item.SetKind(kind)
			}
			inner, err := flatten(item)
			all = append(all, inner...)
			return err
		})
		return all, err
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if value, _, err := unstructured.NestedString(u.Object, field); err != nil || value == "" {
			return nil, fmt.Errorf("%s is required", field)
		}
	}
	if _, found, err := unstructured.NestedMap(u.Object, "metadata"); err != nil || !found {
		return nil, fmt.Errorf("%s: metadata is required", u.GetKind())
	}
	if u.GetName() == "" {
		return nil, fmt.Errorf("%s: metadata.name is required", u.GetKind())
	}
	return []*unstructured.Unstructured{u}, nil
}
