package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// seedsFile has a valid object of each kind, from which requests are generated.
const seedsFile = "seeds.txtar"

// generator derives exchanges from the schema of a kind and a valid object of it.
type generator struct {
	random *rand.Rand
	// schemas are the schemas of kube-apiserver's OpenAPI documents, by name.
	schemas map[string]map[string]any
}

// generate sends count requests, derived from the objects in seedsFile and the schemas of their
// kinds, to both servers, and reports where the answers differ, by class.
func generate(ctx context.Context, b binaries, count int, seed uint64) error {
	content, err := os.ReadFile(seedsFile)
	if err != nil {
		return err
	}
	seeds, err := parseScript("generated", content)
	if err != nil {
		return err
	}
	k, err := startKubernetes(ctx, b)
	if err != nil {
		return err
	}
	defer k.stop()
	g := &generator{random: rand.New(rand.NewPCG(seed, 0)), schemas: map[string]map[string]any{}}
	generated := &script{name: seeds.name}
	for i, s := range seeds.sections {
		e := s.exchanges[0]
		schema, err := g.schema(ctx, k.server, e.path)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		object, err := seeds.object(e.body)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		share := count*(i+1)/len(seeds.sections) - count*i/len(seeds.sections)
		generated.sections = append(generated.sections, section{name: s.name, exchanges: g.exchanges(s.name, e.path, schema, object, share)})
	}
	reference, err := play(ctx, k.server, []*script{generated})
	if err != nil {
		return err
	}
	keep(reference)
	results, err := playFlyball(ctx, []*script{generated}, nil, false)
	if err != nil {
		return err
	}
	return reportGenerated(results)
}

// schema returns the schema of the kind that is created at a path.
func (g *generator) schema(ctx context.Context, from *server, path string) (map[string]any, error) {
	full := path
	if !strings.HasPrefix(path, "/") {
		full = inNamespace(path, "{namespace}")
	}
	group := strings.Join(strings.Split(full, "/")[1:4], "/")
	if strings.HasPrefix(full, "/api/") {
		group = "api/v1"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url+"/openapi/v3/"+group, nil)
	if err != nil {
		return nil, err
	}
	response, err := from.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := utiljson.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	schemas, _ := getPath(document, []any{"components", "schemas"}).(map[string]any)
	for name, schema := range schemas {
		g.schemas[name], _ = schema.(map[string]any)
	}
	kind := getPath(document, []any{"paths", full, "post", "x-kubernetes-group-version-kind"})
	for name, schema := range g.schemas {
		kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) == 1 && kind != nil && text(kinds[0]) == text(kind) {
			return g.schemas[name], nil
		}
	}
	return nil, fmt.Errorf("the OpenAPI document of %s has no schema for %s", group, full)
}

// field is a field of a schema at a path.
type field struct {
	path   string
	schema map[string]any
}

// resolve follows the reference of a schema.
func (g *generator) resolve(schema map[string]any) map[string]any {
	if all, _ := schema["allOf"].([]any); len(all) == 1 {
		schema, _ = all[0].(map[string]any)
	}
	if ref, _ := schema["$ref"].(string); ref != "" {
		return g.schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
	}
	return schema
}

// fields returns the existing and the possible fields of an object, to the given depth below the existing ones.
func (g *generator) fields(path string, schema map[string]any, value any, depth int) []field {
	schema = g.resolve(schema)
	fields := []field{}
	if path != "" {
		fields = append(fields, field{path, schema})
	}
	if depth == 0 {
		return fields
	}
	if value == nil {
		depth = min(depth, 2)
	}
	properties, _ := schema["properties"].(map[string]any)
	object, _ := value.(map[string]any)
	for _, name := range sortedKeys(properties) {
		property, _ := properties[name].(map[string]any)
		if path == "" && (name == "metadata" || name == "apiVersion" || name == "kind" || name == "status") {
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		fields = append(fields, g.fields(at, property, object[name], depth-1)...)
	}
	if items, _ := schema["items"].(map[string]any); items != nil {
		list, _ := value.([]any)
		var first any
		if len(list) > 0 {
			first = list[0]
		}
		fields = append(fields, g.fields(path+"[0]", items, first, depth-1)...)
	}
	return fields
}

// exchanges returns requests for one kind: creations with one field changed, and patches of an
// object that exists.
func (g *generator) exchanges(name, path string, schema map[string]any, object any, count int) []*exchange {
	fields := g.fields("", schema, object, 7)
	meta, _ := getPath(object, []any{"metadata", "name"}).(string)
	var exchanges []*exchange
	add := func(title, method, path, body string) {
		exchanges = append(exchanges, &exchange{name: name + ": " + title, method: method, path: path, body: body})
	}
	add("create", "POST", path, text(object))
	add("create again", "POST", path, text(object))
	add("get", "GET", path+"/"+meta, "")
	for len(exchanges) < count-3 {
		f := fields[g.random.IntN(len(fields))]
		value, what := g.value(f.schema)
		body, err := withField(object, f.path, value, what == "cleared")
		if err != nil {
			continue
		}
		title := fmt.Sprintf("%d %s %s %s", len(exchanges), f.path, what, text(value))
		switch g.random.IntN(4) {
		case 0:
			if strings.Contains(f.path, "[") {
				continue
			}
			patch, err := withField(nil, f.path, value, false)
			if err != nil {
				continue
			}
			add(title, "MERGE", path+"/"+meta+"?dryRun=All", text(patch))
		case 1:
			add(title, "PUT", path+"/"+meta+"?dryRun=All", text(body))
		default:
			add(title, "POST", path+"?dryRun=All", text(body))
		}
	}
	add("table", "GET", path, "")
	exchanges[len(exchanges)-1].header = [][2]string{{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}}
	add("delete", "DELETE", path+"/"+meta, "")
	add("get what is deleted", "GET", path+"/"+meta, "")
	return exchanges
}

// withField returns a copy of an object with a field set or removed.
func withField(object any, path string, value any, remove bool) (any, error) {
	var clone any
	if err := utiljson.Unmarshal([]byte(jsonText(object)), &clone); err != nil {
		return nil, err
	}
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	if remove {
		return deletePath(clone, steps), nil
	}
	return setPath(clone, steps, value)
}

// value returns a value for a field, and a description of the value's special property.
func (g *generator) value(schema map[string]any) (any, string) {
	kind, _ := schema["type"].(string)
	wrong := map[string][]any{
		"string":  {int64(5), true, map[string]any{}, []any{}},
		"integer": {"x", 1.5, map[string]any{}, []any{}},
		"number":  {"x", map[string]any{}},
		"boolean": {"x", int64(1)},
		"array":   {"x", map[string]any{}},
		"object":  {"x", []any{}, int64(1)},
	}
	odd := map[string][]any{
		"string":  {"", "a", "A B", "-a", "a/b", "x.example.com", strings.Repeat("a", 64), strings.Repeat("a", 254), "0", "é", "example.com/x"},
		"integer": {int64(0), int64(-1), int64(1), int64(65536), int64(1) << 31, int64(1) << 62},
		"number":  {0.5, -1.0},
		"boolean": {true, false},
		"array":   {[]any{}, []any{nil}, []any{map[string]any{}}, []any{"a", "a"}, []any{"A B"}},
		"object":  {map[string]any{}, map[string]any{"A B": "C D"}, map[string]any{"a": "b"}, map[string]any{"cpu": "-1"}},
	}
	switch g.random.IntN(8) {
	case 0:
		return nil, "cleared"
	case 1:
		return nil, "null"
	case 2:
		if values := wrong[kind]; len(values) > 0 {
			return values[g.random.IntN(len(values))], "of another type"
		}
	case 3, 4:
		if enum, _ := schema["enum"].([]any); len(enum) > 0 {
			return enum[g.random.IntN(len(enum))], "valid"
		}
	}
	values := odd[kind]
	if len(values) == 0 {
		values = slices.Concat(odd["string"], odd["integer"])
	}
	return values[g.random.IntN(len(values))], "set to"
}
