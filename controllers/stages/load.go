package stages

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"

	"flyball.dev/internal/manifest"
)

// Load returns the stages of a file, or of the files of a directory with the extensions .yaml, .yml and .json. Directories in
// it, and the files of kustomize, are skipped. The error names the file, and the stage if it has a name.
func Load(path string) ([]*v1alpha1.Stage, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = manifests(path); err != nil {
			return nil, err
		}
	}
	var all []*v1alpha1.Stage
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		list, err := decode(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, list...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: there is no Stage", path)
	}
	return all, nil
}

// manifests returns the manifests of a directory, in the order of their names.
func manifests(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			continue
		}
		if slices.Contains([]string{"kustomization.yaml", "kustomization.yml"}, e.Name()) {
			continue
		}
		files = append(files, filepath.Join(dir, e.Name()))
	}
	return files, err
}

// decode returns the stages of manifests in YAML or JSON.
func decode(content []byte) (all []*v1alpha1.Stage, err error) {
	for documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		values, err := manifest.Values(document)
		if err != nil {
			return nil, err
		}
		for _, value := range values {
			list, err := decodeOne(value)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
	}
}

// decodeOne returns the stages of a manifest, which is a Stage or a list of stages.
func decodeOne(document []byte) (all []*v1alpha1.Stage, err error) {
	of := metav1.PartialObjectMetadata{}
	if err := yaml.Unmarshal(document, &of); err != nil {
		return nil, err
	}
	switch kind := of.GroupVersionKind(); {
	case kind == Kind:
		s := &v1alpha1.Stage{}
		if err := yaml.UnmarshalStrict(document, s); err != nil {
			return nil, fmt.Errorf("stage %q: %w", of.Name, err)
		}
		return []*v1alpha1.Stage{s}, nil
	case kind.Kind == "List", kind == Kind.GroupVersion().WithKind(Kind.Kind+"List"):
		list := struct {
			Items []yamlItem `json:"items"`
		}{}
		if err := yaml.Unmarshal(document, &list); err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			more, err := decodeOne(item)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	case kind.Empty() && of.Name == "":
		return nil, nil // comments alone
	default:
		return nil, fmt.Errorf("a manifest has the kind %s of %s; want %s of %s", kind.Kind, kind.GroupVersion(), Kind.Kind, Kind.GroupVersion())
	}
}

// yamlItem is an item of a list, as JSON.
type yamlItem []byte

func (i *yamlItem) UnmarshalJSON(b []byte) error {
	*i = slices.Clone(b)
	return nil
}
