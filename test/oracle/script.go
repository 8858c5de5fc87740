package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// answerSection is the name of the sections with answers.
const answerSection = "answer"

// script is a file of exchanges.
type script struct {
	name      string
	file      string
	comment   string
	sections  []section
	templates map[string]string
}

// section is a section of a script, except for answers: a template, or a request with one or more bodies.
type section struct {
	name      string
	text      string
	exchanges []*exchange
}

// exchange is a request and the answer that is recorded for it.
type exchange struct {
	name       string
	method     string
	path       string
	header     [][2]string
	directives [][2]string
	body       string
	// recorded is nil if there is no recorded answer yet.
	recorded *answer
}

func (s *script) exchanges() []*exchange {
	var all []*exchange
	for _, section := range s.sections {
		all = append(all, section.exchanges...)
	}
	return all
}

// loadScripts reads the scripts of a directory, in the order of their names.
func loadScripts(dir string) ([]*script, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	var scripts []*script
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s, err := parseScript(strings.TrimSuffix(filepath.Base(file), ".txtar"), content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.file = file
		scripts = append(scripts, s)
	}
	return scripts, nil
}

// parseScript parses a script; name is also the last part of its namespace's name.
func parseScript(name string, content []byte) (*script, error) {
	archive := txtar.Parse(content)
	s := &script{name: name, comment: string(archive.Comment), templates: map[string]string{}}
	seen := map[string]bool{}
	for _, file := range archive.Files {
		text := string(file.Data)
		switch {
		case file.Name == answerSection:
			if len(s.sections) == 0 {
				return nil, fmt.Errorf("the first section is an answer")
			}
			last := s.sections[len(s.sections)-1]
			if err := last.setAnswers(text); err != nil {
				return nil, fmt.Errorf("%s: %w", last.name, err)
			}
		case strings.HasPrefix(file.Name, "$"):
			s.templates[file.Name] = text
			s.sections = append(s.sections, section{name: file.Name, text: text})
		default:
			exchanges, err := parseRequest(file.Name, text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file.Name, err)
			}
			for _, e := range exchanges {
				if seen[e.name] {
					return nil, fmt.Errorf("two exchanges have the name %q", e.name)
				}
				seen[e.name] = true
			}
			s.sections = append(s.sections, section{name: file.Name, text: text, exchanges: exchanges})
		}
	}
	return s, nil
}

var headerLine = regexp.MustCompile(`^(\$?[A-Za-z][A-Za-z0-9-]*):\s*(.*)$`)

// parseRequest parses a section with a request into an exchange for each of its bodies.
func parseRequest(name, text string) ([]*exchange, error) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, found := strings.Cut(lines[0], " ")
	if !found || method != strings.ToUpper(method) {
		return nil, fmt.Errorf("%q is not a method and a path", lines[0])
	}
	first := exchange{name: name, method: method, path: strings.TrimSpace(path)}
	raw := false
	for _, line := range lines[1:] {
		m := headerLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%q is not a header", line)
		}
		if strings.HasPrefix(m[1], "$") {
			first.directives = append(first.directives, [2]string{m[1], m[2]})
			continue
		}
		raw = raw || strings.EqualFold(m[1], "Content-Type")
		first.header = append(first.header, [2]string{m[1], m[2]})
	}
	if raw || !strings.Contains("\n"+body, "\n---") {
		first.body = body
		return []*exchange{&first}, nil
	}
	var exchanges []*exchange
	for _, doc := range strings.Split("\n"+body, "\n---")[1:] {
		e := first
		title, rest, _ := strings.Cut(doc, "\n")
		if title = strings.TrimSpace(title); title == "" {
			title = bodyTitle(rest)
		}
		e.name, e.body = name+": "+title, rest
		exchanges = append(exchanges, &e)
	}
	return exchanges, nil
}

// bodyTitle returns the title of one body of several: its lines without the name of a template, or
// that name if there is nothing else.
func bodyTitle(body string) string {
	var lines []string
	if body = strings.TrimSpace(body); !strings.Contains(body, "\n") {
		return body
	}
	for _, line := range strings.Split(body, "\n") {
		if !strings.HasPrefix(line, "$") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, " ")
}

// setAnswers sets the recorded answers of a section's exchanges. Answers that do not fit, since the
// requests have been edited, are ignored.
func (s *section) setAnswers(text string) error {
	if len(s.exchanges) == 1 {
		a, err := parseAnswer(text)
		s.exchanges[0].recorded = a
		return err
	}
	for part := range strings.SplitSeq("\n"+text, "\n--- ") {
		title, rest, _ := strings.Cut(part, "\n")
		for _, e := range s.exchanges {
			if e.name == s.name+": "+title {
				a, err := parseAnswer(rest + "\n")
				if err != nil {
					return fmt.Errorf("%s: %w", title, err)
				}
				e.recorded = a
			}
		}
	}
	return nil
}

// format returns the script with its recorded answers.
func (s *script) format() []byte {
	archive := &txtar.Archive{Comment: []byte(s.comment)}
	for _, section := range s.sections {
		archive.Files = append(archive.Files, txtar.File{Name: section.name, Data: []byte(section.text)})
		if len(section.exchanges) == 0 {
			continue
		}
		var text strings.Builder
		for _, e := range section.exchanges {
			if e.recorded == nil {
				continue
			}
			if len(section.exchanges) > 1 {
				fmt.Fprintf(&text, "--- %s\n", strings.TrimPrefix(e.name, section.name+": "))
			}
			text.WriteString(e.recorded.format())
		}
		archive.Files = append(archive.Files, txtar.File{Name: answerSection, Data: []byte(text.String())})
	}
	return txtar.Format(archive)
}

// object returns the body of an exchange as a value of JSON, with its template applied.
func (s *script) object(body string) (any, error) {
	name, changes, _ := strings.Cut(body, "\n")
	template, found := s.templates[strings.TrimSpace(name)]
	if !found {
		var value any
		err := utilyaml.Unmarshal([]byte(body), &value)
		return value, err
	}
	var value any
	if err := utilyaml.Unmarshal([]byte(template), &value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, change := range splitChanges(changes) {
		var err error
		if value, err = change.apply(value); err != nil {
			return nil, fmt.Errorf("%s: %w", change, err)
		}
	}
	return value, nil
}

// change is a line below the name of a template.
type change string

func splitChanges(text string) []change {
	var changes []change
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "- "):
			changes[len(changes)-1] += change("\n" + line)
		default:
			changes = append(changes, change(line))
		}
	}
	return changes
}

// apply returns the object with the change made. The object is modified.
func (c change) apply(object any) (any, error) {
	if rest, found := strings.CutPrefix(string(c), "delete "); found {
		path, err := parsePath(strings.TrimSpace(rest))
		if err != nil {
			return nil, err
		}
		return deletePath(object, path), nil
	}
	at := pathEnd(string(c))
	if at < 0 {
		return nil, fmt.Errorf("neither path: value nor delete path")
	}
	path, err := parsePath(string(c[:at]))
	if err != nil {
		return nil, err
	}
	var value any
	if err := utilyaml.Unmarshal([]byte(c[at+1:]), &value); err != nil {
		return nil, err
	}
	return setPath(object, path, value)
}

// pathEnd returns the index of the colon after the path at the beginning of a line, or -1.
func pathEnd(line string) int {
	quoted := false
	for i, r := range line {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ':' && !quoted:
			return i
		}
	}
	return -1
}

// parsePath parses the path of a field, such as spec.ports[0] or data["a.b"], into keys and indexes.
func parsePath(text string) ([]any, error) {
	var path []any
	for rest := text; rest != ""; {
		switch {
		case rest[0] == '.':
			rest = rest[1:]
		case rest[0] == '[':
			end := strings.Index(rest, "]")
			if strings.HasPrefix(rest, `["`) {
				end = strings.Index(rest, `"]`) + 1
			}
			if end <= 0 {
				return nil, fmt.Errorf("the path %q has an unmatched bracket", text)
			}
			if key, err := strconv.Unquote(rest[1:end]); err == nil {
				path = append(path, key)
			} else if index, err := strconv.Atoi(rest[1:end]); err == nil {
				path = append(path, index)
			} else {
				return nil, fmt.Errorf("%s in the path %q is neither an index nor a quoted key", rest[:end+1], text)
			}
			rest = rest[end+1:]
		default:
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			path = append(path, rest[:end])
			rest = rest[end:]
		}
	}
	return path, nil
}

// getPath returns a field of an object, or nil.
func getPath(object any, path []any) any {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			m, _ := object.(map[string]any)
			object = m[key]
		case int:
			list, _ := object.([]any)
			if key >= len(list) {
				return nil
			}
			object = list[key]
		}
	}
	return object
}

// setPath sets a field of an object, and makes the maps and lists that contain it as necessary. An
// index at the end of a list appends to it.
func setPath(object any, path []any, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch key := path[0].(type) {
	case string:
		m, ok := object.(map[string]any)
		if !ok {
			m = map[string]any{}
		}
		child, err := setPath(m[key], path[1:], value)
		m[key] = child
		return m, err
	case int:
		list, _ := object.([]any)
		if key > len(list) {
			return nil, fmt.Errorf("index %d of a list of %d", key, len(list))
		}
		if key == len(list) {
			list = append(list, nil)
		}
		child, err := setPath(list[key], path[1:], value)
		list[key] = child
		return list, err
	}
	return nil, fmt.Errorf("%T in a path", path[0])
}

// deletePath removes a field or an element from an object.
func deletePath(object any, path []any) any {
	if len(path) == 0 {
		return nil
	}
	switch key := path[0].(type) {
	case string:
		m, ok := object.(map[string]any)
		if !ok {
			return object
		}
		if len(path) == 1 {
			delete(m, key)
		} else if child, found := m[key]; found {
			m[key] = deletePath(child, path[1:])
		}
		return m
	case int:
		list, _ := object.([]any)
		if key >= len(list) {
			return object
		}
		if len(path) == 1 {
			return append(list[:key:key], list[key+1:]...)
		}
		list[key] = deletePath(list[key], path[1:])
		return list
	}
	return object
}
