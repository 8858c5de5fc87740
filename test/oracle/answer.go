package main

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// answer is a normalised response.
type answer struct {
	code int
	// header has the headers that are unusual, as "Name: value", sorted.
	header []string
	// body is a value of JSON, or a string if the body is plain text, or nil.
	body any
}

// usualHeaders are the normalised headers that an answer omits. An answer mentions a missing usual header.
var usualHeaders = []string{
	"Audit-Id: set",
	"Cache-Control: no-cache, private",
	"Content-Type: application/json",
	"X-Kubernetes-Pf-Flowschema-Uid: set",
	"X-Kubernetes-Pf-Prioritylevel-Uid: set",
}

// format returns the answer as a text.
func (a *answer) format() string {
	var text strings.Builder
	fmt.Fprintln(&text, a.code)
	for _, line := range a.header {
		fmt.Fprintln(&text, line)
	}
	if a.body != nil {
		body, err := yaml.Marshal(a.body)
		if err != nil {
			panic(err) // values of JSON can be encoded
		}
		text.WriteString("\n")
		text.Write(body)
	}
	return text.String()
}

// parseAnswer parses the output of format.
func parseAnswer(text string) (*answer, error) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	code, err := strconv.Atoi(lines[0])
	if err != nil {
		return nil, fmt.Errorf("%q is not a status code", lines[0])
	}
	a := &answer{code: code, header: lines[1:]}
	if body != "" {
		if err := utilyaml.Unmarshal([]byte(body), &a.body); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// difference is where an answer differs from the expected one.
type difference struct {
	// class is "code", "reason", "message", "details", "header", "managed fields", "events" or "body".
	class string
	// path is the field or header that differs.
	path string
	// want and got are the two values; "" means that there is none.
	want, got string
}

func (d difference) String() string {
	return strings.TrimSpace(d.class + " " + d.path)
}

// compare returns the differences of an answer from the expected one. If the codes differ, nothing
// else is compared.
func compare(want, got *answer) []difference {
	var differences []difference
	if want.code != got.code {
		differences = append(differences, difference{"code", "", strconv.Itoa(want.code), strconv.Itoa(got.code) + " " + summary(got.body)})
		return differences
	}
	differences = append(differences, compareHeaders(want.header, got.header)...)
	differences = append(differences, compareBodies("", want.body, got.body)...)
	if slices.ContainsFunc(differences, func(d difference) bool { return d.class == "details" }) {
		// The message of an error repeats the details.
		differences = slices.DeleteFunc(differences, func(d difference) bool { return d.class == "message" })
	}
	return differences
}

func summary(body any) string {
	switch b := body.(type) {
	case map[string]any:
		if b["reason"] != nil {
			return fmt.Sprint(b["reason"], ": ", b["message"])
		}
	case string:
		return b
	}
	return ""
}

func compareHeaders(want, got []string) []difference {
	var differences []difference
	names := map[string]bool{}
	for _, line := range append(append([]string(nil), want...), got...) {
		name, _, _ := strings.Cut(line, ":")
		names[name] = true
	}
	for _, name := range sortedKeys(names) {
		if w, g := headerValues(want, name), headerValues(got, name); w != g {
			differences = append(differences, difference{"header", name, w, g})
		}
	}
	return differences
}

func headerValues(header []string, name string) string {
	var values []string
	for _, line := range header {
		if value, found := strings.CutPrefix(line, name+": "); found {
			values = append(values, value)
		}
	}
	return strings.Join(values, "\n")
}

// compareBodies compares two values of JSON at a path.
func compareBodies(path string, want, got any) []difference {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		var differences []difference
		keys := map[string]bool{}
		for key := range w {
			keys[key] = true
		}
		for key := range g {
			keys[key] = true
		}
		for _, key := range sortedKeys(keys) {
			at := key
			if strings.ContainsAny(key, ".[ ") {
				at = "[" + strconv.Quote(key) + "]"
			} else if path != "" {
				at = "." + key
			}
			differences = append(differences, compareBodies(path+at, w[key], g[key])...)
		}
		return differences
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			break
		}
		var differences []difference
		for i := range w {
			differences = append(differences, compareBodies(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
		return differences
	}
	if text(want) == text(got) {
		return nil
	}
	return []difference{{class(path), path, text(want), text(got)}}
}

// class returns the class of a difference in a field of the body.
func class(path string) string {
	switch {
	case path == "reason":
		return "reason"
	case path == "message":
		return "message"
	case strings.HasPrefix(path, "details"):
		return "details"
	case strings.Contains(path, "managedFields"):
		return "managed fields"
	case strings.HasPrefix(path, "events"):
		return "events"
	default:
		return "body"
	}
}

// text returns a value of JSON in YAML.
func text(value any) string {
	if value == nil {
		return ""
	}
	encoded, err := yaml.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(encoded))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
