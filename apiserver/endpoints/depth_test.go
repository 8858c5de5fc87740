package endpoints

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	jsonType     = "application/json; charset=utf-8"
	yamlType     = "application/yaml"
	applyType    = "application/apply-patch+yaml"
	protobufType = "application/vnd.kubernetes.protobuf"
)

func objects(depth int) string {
	return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
}

// aliases is YAML that is deep because of aliases: each node contains the previous one.
func aliases(depth int) string {
	var b strings.Builder
	b.WriteString("n1: &n1 {a: 1}\n")
	for n := 2; n < depth; n++ {
		fmt.Fprintf(&b, "n%d: &n%d {a: *n%d}\n", n, n, n-1)
	}
	return b.String()
}

// indented is YAML in block style.
func indented(depth int) string {
	var b strings.Builder
	for n := range depth {
		b.WriteString(strings.Repeat(" ", n) + "a:\n")
	}
	return b.String()
}

// deepSchema is a definition's schema as protobuf, in the envelope of Kubernetes.
func deepSchema(t testing.TB, depth int) string {
	t.Helper()
	props := &apiextensionsv1.JSONSchemaProps{Type: "object"}
	for range depth {
		props = &apiextensionsv1.JSONSchemaProps{Not: props}
	}
	raw, err := props.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(raw)))) + string(raw)
}

func TestTooDeep(t *testing.T) {
	hidden := `{"a":"` + strings.Repeat(`[{\"`, 1000) + `","b":"\\","c":[]}`
	for _, tc := range []struct {
		name, contentType, body string
		want                    bool
	}{
		{"nothing", jsonType, "", false},
		{"as deep as can be", jsonType, objects(maxDepth), false},
		{"one deeper", jsonType, objects(maxDepth + 1), true},
		{"without a content type", "", objects(maxDepth + 1), true},
		{"merge patch", "application/merge-patch+json", objects(maxDepth + 1), true},
		{"upper case", "Application/JSON", objects(maxDepth + 1), true},
		{"lists", jsonType, strings.Repeat("[", maxDepth+1), true},
		{"many that are not deep", jsonType, "[" + strings.Repeat("{},", 10*maxDepth) + "{}]", false},
		{"brackets in a text", jsonType, hidden, false},
		{"depth after a text", jsonType, `{"a":"\\\"}","b":` + objects(maxDepth) + "}", true},
		{"a text without an end", jsonType, strings.Repeat("{", maxDepth) + `"` + strings.Repeat("{", maxDepth), false},
		{"many escapes", jsonType, strings.Repeat("{", maxDepth) + `"` + strings.Repeat(`\\`, 1<<20), false},
		{"YAML that is JSON", yamlType, objects(maxDepth + 1), true},
		{"YAML that is JSON, with brackets in a text", yamlType, hidden, false},
		{"YAML in flow style", applyType, "{a: '}}}}', b: " + strings.ReplaceAll(objects(maxDepth), `"a":`, "a: ") + "}", true},
		{"YAML in block style", yamlType, indented(maxDepth + 1), true},
		{"YAML in block style, as deep as can be", yamlType, indented(maxDepth), false},
		{"YAML in lists", yamlType, strings.Repeat("- ", maxDepth+1) + "1", true},
		{"YAML with aliases", yamlType, aliases(maxDepth + 1), true},
		{"YAML with aliases, as deep as can be", yamlType, aliases(maxDepth), false},
		{"YAML with brackets in a text", yamlType, "data:\n  script: |\n    " + strings.Repeat("[{", 1000), false},
		{"YAML that is none", yamlType, strings.Repeat("{a: ", maxDepth+1), false},
		{"protobuf", protobufType, deepSchema(t, maxDepth+1), true},
		{"protobuf that is not deep", protobufType, deepSchema(t, maxDepth/2), false},
		{"protobuf with an error behind", protobufType, deepSchema(t, maxDepth+1) + "\xff\xff", true},
		{"protobuf that is none", protobufType, strings.Repeat("\xff", 1000), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := checkDocument(tc.contentType, []byte(tc.body), 0)
			if got := err != nil && strings.Contains(err.Error(), "nested"); got != tc.want {
				t.Errorf("too deep: %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

// FuzzJSONDepth compares the depth with a walk over the decoded document.
func FuzzJSONDepth(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"]}\\"}],"c\"":[[]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		if json.Unmarshal(data, &v) != nil {
			return
		}
		for _, levels := range []int{0, 1, maxDepth - 3, maxDepth - 1, maxDepth} {
			document := []byte(strings.Repeat("[", levels) + string(data) + strings.Repeat("]", levels))
			if got, want := jsonTooDeep(document), levels+depth(v) > maxDepth; got != want {
				t.Errorf("%d levels around %s: too deep %v, want %v", levels, data, got, want)
			}
		}
	})
}

func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, depth(inner))
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, depth(inner))
		}
	default:
		return 0
	}
	return deepest + 1
}

// FuzzProtobufDepth checks that no input makes the check panic.
func FuzzProtobufDepth(f *testing.F) {
	f.Add([]byte(deepSchema(f, 3)))
	f.Fuzz(func(t *testing.T, data []byte) {
		protobufTooDeep(data, maxDepth)
		protobufTooDeep(bytes.Repeat(data, 20), 1)
	})
}

func BenchmarkTooDeep(b *testing.B) {
	pod := []byte(`{"metadata":{"name":"pod-1","labels":{"app":"web","tier":"front"}},"spec":{"containers":[{"name":"web","image":"nginx:1.29","env":[{"name":"MODE","value":"production"}],"ports":[{"name":"http","containerPort":80}]}]}}`)
	many := []byte("[" + strings.Repeat(string(pod)+",", 3<<20/len(pod)-1) + string(pod) + "]")
	for _, tc := range []struct {
		name, contentType string
		body              []byte
	}{
		{"pod", jsonType, pod},
		{"pod as YAML", applyType, pod},
		{"3 MB", jsonType, many},
		{"schema as protobuf", protobufType, []byte(deepSchema(b, maxDepth/2))},
	} {
		b.Run(tc.name, func(b *testing.B) {
			b.SetBytes(int64(len(tc.body)))
			for b.Loop() {
				_ = checkDocument(tc.contentType, tc.body, 3<<20)
			}
		})
	}
}
