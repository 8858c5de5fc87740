package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// normalizer replaces values that are random or depend on time by symbols, which express the relation to values in
// earlier answers. The symbols have no numbers, so that a different answer does not change the following answers.
type normalizer struct {
	// host is the address of the server.
	host string
	// script is the text of the script. Its values are not replaced.
	script string
	// symbols are the symbols of random values.
	symbols map[string]string
	// revisions are the last resource versions of objects, by uid.
	revisions map[string]uint64
	// latest is the greatest resource version of an object so far.
	latest uint64
}

func newNormalizer(host, script string) *normalizer {
	return &normalizer{host: host, script: script, symbols: map[string]string{}, revisions: map[string]uint64{}}
}

var (
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timestamp = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})`)
	volume    = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
	age       = regexp.MustCompile(`^\d{1,3}s$`)
	years     = regexp.MustCompile(`^\d+y(\d+d)?$`) // since a time that a script has, which grows by the day
	// revision matches a resource version in a message.
	revision = regexp.MustCompile(`(?i)(resource ?version(?: in [a-z ]*)?[\\": ]{0,8}|in record \(|current: )(\d+)( \(\d+\))?`)
	// randomFields maps fields with random values to symbols.
	randomFields = map[string]string{
		"clusterIP": "<ip>", "clusterIPs": "<ip>", "nodePort": "<port>", "healthCheckNodePort": "<port>",
		"token": "<token>", "certificate": "<certificate>", "continue": "<continue>",
	}
)

// normalize returns the normalised answer of a response with a decoded body.
func (n *normalizer) normalize(code int, header http.Header, body any) *answer {
	body = shorten(code, n.value("", body))
	encoded, err := yaml.Marshal(body)
	if err != nil {
		panic(err) // values of JSON can be encoded
	}
	a := &answer{code: code, header: n.header(header)}
	if body != nil {
		// One round of encoding makes numbers the same as in a recorded answer.
		if err := utilyaml.Unmarshal(encoded, &a.body); err != nil {
			panic(err)
		}
	}
	return a
}

// shorten removes the common fields of failures from a Status.
func shorten(code int, body any) any {
	status, ok := body.(map[string]any)
	if !ok || status["kind"] != "Status" || status["status"] != "Failure" {
		return body
	}
	for field, usual := range map[string]string{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": strconv.Itoa(code), "metadata": "map[]",
	} {
		if fmt.Sprint(status[field]) == usual {
			delete(status, field)
		}
	}
	sortCauses(status)
	return status
}

// sortCauses sorts the causes of a Status, because their order is random if a validation ranges over a map. It removes
// the repetition of the causes from the message.
func sortCauses(status map[string]any) {
	details, _ := status["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	if len(causes) < 2 {
		return
	}
	sort.SliceStable(causes, func(i, j int) bool { return text(causes[i]) < text(causes[j]) })
	if message, _ := status["message"].(string); message != "" {
		before, _, _ := strings.Cut(message, "[")
		status["message"] = before + "[...]"
	}
}

// header returns the headers that are unusual.
func (n *normalizer) header(header http.Header) []string {
	var lines []string
	for name, values := range header {
		switch name {
		case "Date", "Content-Length":
			continue
		case "Audit-Id", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid", "Etag", "Last-Modified", "Expires":
			values = []string{"set"}
		}
		for _, value := range values {
			lines = append(lines, name+": "+n.string(value))
		}
	}
	for _, usual := range usualHeaders {
		name, _, _ := strings.Cut(usual, ":")
		if at := slices.Index(lines, usual); at >= 0 {
			lines = slices.Delete(lines, at, at+1)
		} else if header.Get(name) == "" {
			lines = append(lines, name+": none")
		}
	}
	sort.Strings(lines)
	return lines
}

// value returns a normalised JSON value. name is the name of the field that contains it.
func (n *normalizer) value(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		return n.object(name, v)
	case []any:
		if name == "managedFields" {
			return n.value("", managedFields(v))
		}
		list := make([]any, len(v))
		for i, item := range v {
			if cell, ok := item.(string); ok && name == "cells" {
				switch {
				case age.MatchString(cell):
					item = "<age>"
				case years.MatchString(cell):
					item = "<years>"
				}
			}
			list[i] = n.value(name, item)
		}
		return list
	case string:
		if symbol := randomFields[name]; symbol != "" && v != "" && v != "None" && !strings.Contains(n.script, v) {
			n.symbols[v] = symbol
			return symbol
		}
		return n.string(v)
	case int64, float64:
		if symbol := randomFields[name]; symbol != "" && !strings.Contains(n.script, fmt.Sprint(v)) {
			return symbol
		}
	}
	return value
}

func (n *normalizer) object(name string, object map[string]any) any {
	if generate, _ := object["generateName"].(string); generate != "" && name == "metadata" {
		if made, _ := object["name"].(string); strings.HasPrefix(made, generate) {
			n.symbols[made] = generate + "<random>"
		}
	}
	_, isList := object["items"]
	_, isTable := object["rows"]
	bookmark := object["type"] == "BOOKMARK"
	normalized := make(map[string]any, len(object))
	for _, key := range sortedKeys(object) {
		value := object[key]
		switch text, _ := value.(string); {
		case key == "metadata" && (isList || isTable || bookmark):
			normalized[key] = n.listMeta(value)
		case key == "object" && bookmark:
			normalized[key] = n.bookmark(value)
		case key == "resourceVersion" && name == "metadata" && text != "":
			normalized[key] = n.objectRevision(object, text)
		case key == "uid" && name == "metadata" && uuid.MatchString(text) && !strings.Contains(n.script, text):
			normalized[key] = "<new>"
			if known := n.symbols[text]; known != "" {
				normalized[key] = known
			} else {
				n.symbols[text] = fmt.Sprintf("<uid of %v>", n.value("name", object["name"]))
			}
		default:
			normalized[n.string(key)] = n.value(key, value)
		}
	}
	return normalized
}

func (n *normalizer) bookmark(value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	normalized := make(map[string]any, len(object))
	for key, value := range object {
		normalized[key] = n.value(key, value)
	}
	normalized["metadata"] = n.listMeta(object["metadata"])
	return normalized
}

// listMeta normalises the metadata of a list. The resource version depends on other writes on the server, so only its
// order relative to other versions remains.
func (n *normalizer) listMeta(value any) any {
	meta, ok := value.(map[string]any)
	if !ok {
		return value
	}
	normalized, _ := n.value("", meta).(map[string]any)
	if rv, _ := meta["resourceVersion"].(string); rv != "" {
		switch number, err := strconv.ParseUint(rv, 10, 64); {
		case err != nil:
			normalized["resourceVersion"] = rv
		case number >= n.latest:
			normalized["resourceVersion"] = "<latest>"
		default:
			normalized["resourceVersion"] = "<old>"
		}
	}
	return normalized
}

// objectRevision returns the symbol of an object's resource version: whether it is the one that the
// object had before, a later or an earlier one.
func (n *normalizer) objectRevision(meta map[string]any, rv string) string {
	number, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return rv
	}
	n.latest = max(n.latest, number)
	uid := fmt.Sprint(meta["uid"])
	before := n.revisions[uid]
	n.revisions[uid] = max(before, number)
	switch {
	case number == before:
		return "<same>"
	case number < before:
		return "<old>"
	}
	return "<new>"
}

// string returns a string with the random parts replaced.
func (n *normalizer) string(s string) string {
	s = strings.ReplaceAll(s, n.host, "$SERVER")
	s = uuid.ReplaceAllStringFunc(s, func(id string) string {
		if strings.Contains(n.script, id) {
			return id
		}
		if symbol := n.symbols[id]; symbol != "" {
			return symbol
		}
		return "<uid>"
	})
	s = timestamp.ReplaceAllStringFunc(s, func(t string) string {
		at, err := time.Parse(time.RFC3339Nano, t)
		if err != nil || time.Since(at).Abs() > 24*time.Hour {
			return t
		}
		return "<now>"
	})
	s = volume.ReplaceAllString(s, "kube-api-access-<random>")
	s = revision.ReplaceAllStringFunc(s, func(text string) string {
		m := revision.FindStringSubmatch(text)
		switch {
		case m[3] != "":
			return m[1] + m[2] + " (<rv>)"
		case m[2] == "0" || m[2] == "1" || strings.Contains(n.script, `"`+m[2]+`"`):
			return text
		}
		return m[1] + "<rv>"
	})
	for value, symbol := range n.symbols {
		if len(value) >= 7 {
			s = strings.ReplaceAll(s, value, symbol)
		}
	}
	return s
}

// managedFields returns the entries of an object's managed fields, each in one string. They are
// sorted, since their order depends on the second of the writes.
func managedFields(entries []any) any {
	lines := []any{}
	for _, entry := range entries {
		e, ok := entry.(map[string]any)
		if !ok {
			return entries
		}
		words := []string{fmt.Sprint(e["manager"]), fmt.Sprint(e["operation"]), fmt.Sprint(e["apiVersion"])}
		if e["subresource"] != nil {
			words = append(words, fmt.Sprint(e["subresource"]))
		}
		if e["time"] == nil {
			words = append(words, "(without time)")
		}
		lines = append(lines, strings.Join(words, " ")+": "+fieldSet(e["fieldsV1"]))
	}
	sort.Slice(lines, func(i, j int) bool { return fmt.Sprint(lines[i]) < fmt.Sprint(lines[j]) })
	return lines
}

// fieldSet returns a set of fields in a short form, such as data{.,a}.
func fieldSet(fields any) string {
	m, ok := fields.(map[string]any)
	if !ok {
		encoded, _ := json.Marshal(fields)
		return string(encoded)
	}
	var parts []string
	for _, key := range sortedKeys(m) {
		part := strings.TrimPrefix(key, "f:")
		if child, _ := m[key].(map[string]any); len(child) > 0 {
			part += "{" + fieldSet(child) + "}"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
