package validation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/builtin/strategytest"
)

// fieldKey names a field of a struct.
type fieldKey struct {
	owner reflect.Type
	name  string
}

// corpus has the values that mutations choose from.
type corpus struct {
	values map[reflect.Type][]reflect.Value // of structs, slices and maps in the seeds
	fields map[fieldKey][]string            // strings in the seeds
	enums  map[string][]string              // constants of a type, such as k8s.io/api/core/v1.Protocol
	keys   []string                         // keys of labels and annotations that have a meaning
	seeds  map[string][]runtime.Object      // by apiVersion/kind
	// requests are writes that the mutations rarely reach, by the name of the kind. Most are invalid.
	requests map[string][]*strategytest.Recorded
}

var theCorpus = sync.OnceValues(func() (*corpus, error) {
	c := &corpus{values: map[reflect.Type][]reflect.Value{}, fields: map[fieldKey][]string{},
		enums: map[string][]string{}, seeds: map[string][]runtime.Object{}, requests: map[string][]*strategytest.Recorded{}}
	if err := c.readSeeds(); err != nil {
		return nil, err
	}
	if err := c.readRequests(); err != nil {
		return nil, err
	}
	return c, c.readConstants()
})

// readSeeds reads the objects of the oracle and of testdata.
func (c *corpus) readSeeds() error {
	text, err := os.ReadFile("../../oracle/seeds.txtar")
	if err != nil {
		return err
	}
	for _, section := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		_, section, _ = strings.Cut(section, " --\n")
		line, body, _ := strings.Cut(section, "\n\n")
		path := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "POST "), "/apis/"), "/api/")
		version, plural := path[:strings.LastIndex(path, "/")], path[strings.LastIndex(path, "/")+1:]
		if err := c.addSeed(strings.ReplaceAll(body, "$NS", strategytest.Namespace), version, plural); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	requests, err := podCertificateRequests()
	if err != nil {
		return err
	}
	for _, r := range requests {
		c.add(certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"), r)
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for i, document := range strings.Split("\n"+string(text), "\n---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			if err := c.addSeed(document, "", ""); err != nil {
				return fmt.Errorf("%s, document %d: %w", file, i, err)
			}
		}
	}
	return nil
}

// readRequests reads the requests of testdata.
func (c *corpus) readRequests() error {
	text, err := os.ReadFile("testdata/requests.jsonl")
	if err != nil {
		return err
	}
	all, err := allKinds()
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		r := &strategytest.Recorded{}
		if err := json.Unmarshal(line, r); err != nil {
			return fmt.Errorf("requests.jsonl: %w", err)
		}
		if !slices.ContainsFunc(all, func(k *kind) bool { return k.Name == r.Kind }) {
			return fmt.Errorf("requests.jsonl: no kind has the name %q", r.Kind)
		}
		c.requests[r.Kind] = append(c.requests[r.Kind], r)
	}
	return nil
}

// addSeed adds the object of a document. Without an apiVersion and a kind, the object is of the resource.
func (c *corpus) addSeed(text, version, plural string) error {
	if version != "" {
		all, err := allKinds()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(k *kind) bool {
			return k.Resource.GroupVersion().String() == version && k.Resource.Resource == plural
		})
		if i < 0 {
			return nil // CustomResourceDefinitions
		}
		text = fmt.Sprintf("apiVersion: %s\nkind: %s\n%s", version, all[i].GVK.Kind, withoutType(text))
	}
	body, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	obj, gvk, err := builtin.Codecs().UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return err
	}
	c.add(*gvk, obj)
	return nil
}

// add adds an object.
func (c *corpus) add(gvk schema.GroupVersionKind, obj runtime.Object) {
	object, _ := meta.Accessor(obj)
	object.SetUID("00000000-0000-0000-0000-000000000001")
	key := gvk.GroupVersion().String() + "/" + gvk.Kind
	c.seeds[key] = append(c.seeds[key], obj)
	c.harvest(reflect.ValueOf(obj).Elem(), fieldKey{})
}

// withoutType returns a document without its apiVersion and kind.
func withoutType(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "apiVersion:") && !strings.HasPrefix(line, "kind:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// harvest adds the values in v, which is the field at key.
func (c *corpus) harvest(v reflect.Value, key fieldKey) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.harvest(v.Elem(), key)
		}
	case reflect.Struct:
		if opaque[v.Type()] || v.IsZero() {
			return
		}
		c.values[v.Type()] = append(c.values[v.Type()], v)
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				c.harvest(v.Field(i), fieldKey{v.Type(), f.Name})
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			return
		}
		c.values[v.Type()] = append(c.values[v.Type()], v)
		for i := range v.Len() {
			c.harvest(v.Index(i), key)
		}
	case reflect.Map:
		if v.Len() == 0 {
			return
		}
		c.values[v.Type()] = append(c.values[v.Type()], v)
		for _, k := range sortedKeys(v) {
			c.harvest(k, fieldKey{key.owner, key.name + " key"})
			c.harvest(v.MapIndex(k), fieldKey{key.owner, key.name + " value"})
		}
	case reflect.String:
		if s := v.String(); !slices.Contains(c.fields[key], s) {
			c.fields[key] = append(c.fields[key], s)
		}
	}
}

// sortedKeys returns the keys of a map, which are strings.
func sortedKeys(v reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int {
		return strings.Compare(a.String(), b.String())
	})
}

// readConstants reads the string constants in k8s.io/api.
func (c *corpus) readConstants() error {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	root := strings.TrimSpace(string(out))
	folders := map[string]bool{}
	all, err := allKinds()
	if err != nil {
		return err
	}
	for _, k := range all {
		obj, err := builtin.Scheme().New(k.GVK)
		if err != nil {
			return err
		}
		if folder, ok := strings.CutPrefix(reflect.TypeOf(obj).Elem().PkgPath(), "k8s.io/api/"); ok {
			folders[folder] = true
		}
	}
	for folder := range folders {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if strings.Contains(filepath.Base(file), "generated") {
				continue
			}
			if err := c.readConstantsOf(file, "k8s.io/api/"+folder); err != nil {
				return err
			}
		}
	}
	slices.Sort(c.keys)
	c.keys = slices.Compact(c.keys)
	for _, values := range c.enums {
		slices.Sort(values)
	}
	return nil
}

func (c *corpus) readConstantsOf(file, pkg string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			if len(spec.Values) != 1 {
				continue
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				return err
			}
			if name, ok := spec.Type.(*ast.Ident); ok && name.Name != "string" {
				c.enums[pkg+"."+name.Name] = append(c.enums[pkg+"."+name.Name], value)
			} else {
				c.keys = append(c.keys, value)
			}
		}
	}
	return nil
}
