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

	"sigs.k8s.io/yaml"
)

// normalizer replaces what is random or depends on time by symbols. The same value has the same
// symbol in all answers that one normalizer has seen.
type normalizer struct {
	// host is the address of the server.
	host string
	// script is the text of the script, whose values are left as they are.
	script  string
	symbols map[string]string
	counts  map[string]int
	// latest is the greatest resource version of an object so far, and current its symbol.
	latest  uint64
	current string
}

func newNormalizer(host, script string) *normalizer {
	return &normalizer{host: host, script: script, symbols: map[string]string{}, counts: map[string]int{}}
}

var (
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timestamp = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})`)
	volume    = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
	age       = regexp.MustCompile(`^\d{1,3}s$`)
	// revision matches a resource version in a message.
	revision = regexp.MustCompile(`(?i)(resource ?version(?: in [a-z ]*)?:? ?"?|in record \(|current: )(\d+)( \(\d+\))?`)
	// randomFields are the fields whose values are random, with the name of their symbols.
	randomFields = map[string]string{
		"clusterIP": "ip", "clusterIPs": "ip", "nodePort": "port", "healthCheckNodePort": "port",
		"token": "token", "certificate": "certificate", "continue": "continue",
	}
)

// normalize returns the normalised answer of a response with a decoded body.
func (n *normalizer) normalize(code int, header http.Header, body any) *answer {
	body = shorten(code, n.value("", body, false))
	encoded, err := yaml.Marshal(body)
	if err != nil {
		panic(err) // values of JSON can be encoded
	}
	a := &answer{code: code, header: n.header(header)}
	if body != nil {
		// One round of encoding makes numbers the same as in a recorded answer.
		if err := yaml.Unmarshal(encoded, &a.body); err != nil {
			panic(err)
		}
	}
	return a
}

// shorten removes from a Status of a failure what all of them have.
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
	return status
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

// value returns a value of JSON normalised. The name is that of the field that contains it; inList is
// set for the items of a list, whose resource versions are not in order.
func (n *normalizer) value(name string, value any, inList bool) any {
	switch v := value.(type) {
	case map[string]any:
		return n.object(name, v, inList)
	case []any:
		if name == "managedFields" {
			return managedFields(v)
		}
		list := make([]any, len(v))
		for i, item := range v {
			if cell, ok := item.(string); ok && name == "cells" && age.MatchString(cell) {
				item = "<age>"
			}
			list[i] = n.value(name, item, inList || name == "items" || name == "rows")
		}
		return list
	case string:
		if symbol := randomFields[name]; symbol != "" && v != "" && v != "None" && !strings.Contains(n.script, v) {
			return n.symbol(symbol, v)
		}
		return n.string(v)
	case int64, float64:
		if symbol := randomFields[name]; symbol != "" && !strings.Contains(n.script, fmt.Sprint(v)) {
			return n.symbol(symbol, fmt.Sprint(v))
		}
	}
	return value
}

func (n *normalizer) object(name string, object map[string]any, inList bool) any {
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
		switch rv, _ := value.(string); {
		case key == "metadata" && (isList || isTable || bookmark):
			normalized[key] = n.listMeta(value)
			continue
		case key == "object" && bookmark:
			if bookmarked, ok := value.(map[string]any); ok {
				bookmarked["metadata"] = n.listMeta(bookmarked["metadata"])
				normalized[key] = bookmarked
				continue
			}
		case key == "resourceVersion" && name == "metadata" && rv != "":
			normalized[key] = n.revision(rv, inList)
			continue
		}
		normalized[n.string(key)] = n.value(key, value, inList)
	}
	return normalized
}

// listMeta normalises the metadata of a list, whose resource version depends on what else happens
// on the server, so that only an order remains.
func (n *normalizer) listMeta(value any) any {
	meta, ok := value.(map[string]any)
	if !ok {
		return value
	}
	normalized, _ := n.value("", meta, true).(map[string]any)
	if rv, _ := meta["resourceVersion"].(string); rv != "" {
		number, err := strconv.ParseUint(rv, 10, 64)
		switch symbol := n.symbols["rv "+rv]; {
		case err != nil:
			normalized["resourceVersion"] = rv
		case symbol != "" && symbol != n.current:
			normalized["resourceVersion"] = symbol
		case number >= n.latest:
			normalized["resourceVersion"] = strings.TrimSpace("at least " + n.current)
		default:
			normalized["resourceVersion"] = "before " + n.current
		}
	}
	return normalized
}

// revision returns the symbol of an object's resource version.
func (n *normalizer) revision(rv string, inList bool) string {
	if symbol := n.symbols["rv "+rv]; symbol != "" {
		return symbol
	}
	number, err := strconv.ParseUint(rv, 10, 64)
	switch {
	case err != nil:
		return rv
	case inList:
		return "some"
	case number < n.latest:
		return "before " + n.current
	}
	n.latest = number
	n.counts["rv"]++
	n.current = fmt.Sprint("rv", n.counts["rv"])
	n.symbols["rv "+rv] = n.current
	return n.current
}

// symbol returns the symbol of a value, and makes it if the value is new.
func (n *normalizer) symbol(kind, value string) string {
	key := kind + " " + value
	if n.symbols[key] == "" {
		n.counts[kind]++
		n.symbols[key] = fmt.Sprintf("<%s %d>", kind, n.counts[kind])
	}
	return n.symbols[key]
}

// string returns a string with the random parts replaced.
func (n *normalizer) string(s string) string {
	s = strings.ReplaceAll(s, n.host, "$SERVER")
	s = uuid.ReplaceAllStringFunc(s, func(id string) string {
		if strings.Contains(n.script, id) {
			return id
		}
		return n.symbol("uid", id)
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
		if symbol := n.symbols["rv "+m[2]]; symbol != "" {
			return m[1] + symbol
		}
		if strings.HasPrefix(m[1], "in record") {
			return m[1] + "<rv>"
		}
		if m[3] != "" {
			return m[1] + m[2] + " (<rv>)"
		}
		return text
	})
	for name, symbol := range n.symbols {
		if strings.HasSuffix(symbol, "<random>") {
			s = strings.ReplaceAll(s, name, symbol)
		}
	}
	return s
}

// managedFields returns the entries of an object's managed fields, each in one string.
func managedFields(entries []any) any {
	var lines []any
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
