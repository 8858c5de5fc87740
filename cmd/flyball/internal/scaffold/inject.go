package scaffold

import (
	"bytes"
	"fmt"
	"go/format"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// markerPrefix begins the comments where code is inserted. ownPrefix begins them in files where Kubebuilder must not
// insert its code, which needs another test framework.
const (
	markerPrefix = "+kubebuilder:scaffold:"
	ownPrefix    = "+flyball:scaffold:"
)

// insertGo inserts code before a marker in a Go file, unless the file already has the code. It keeps a formatted file
// formatted.
func insertGo(content []byte, marker, code string) ([]byte, error) {
	if containsBlock(string(content), code) {
		return content, nil
	}
	formatted, err := format.Source(content)
	if err != nil {
		return nil, fmt.Errorf("the file has an error: %w", err)
	}
	wasFormatted := bytes.Equal(formatted, content)
	lines := strings.SplitAfter(string(content), "\n")
	i := slices.IndexFunc(lines, func(l string) bool {
		rest, ok := strings.CutPrefix(strings.TrimSpace(l), "//")
		rest = strings.TrimSpace(rest)
		return ok && (rest == markerPrefix+marker || rest == ownPrefix+marker)
	})
	if i < 0 {
		return nil, fmt.Errorf("the comment // %s%s is missing: put it back, "+
			"or insert this where it was, and then the comment after it:\n%s", markerPrefix, marker, code)
	}
	result := []byte(strings.Join(slices.Insert(lines, i, code), ""))
	if !wasFormatted {
		return result, nil
	}
	return format.Source(result)
}

// containsBlock reports whether a text contains consecutive lines of code. It ignores indentation.
func containsBlock(text, code string) bool {
	return strings.Contains(trimLines(text), trimLines(code))
}

func trimLines(text string) string {
	var out strings.Builder
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			out.WriteString(l + "\n")
		}
	}
	return out.String()
}

// insertItem inserts an item into a top-level list of a YAML file, such as the resources of a kustomization, unless the
// list already has the item. It inserts before the marker if there is one, and otherwise at the end of the list. If
// necessary, it adds the list.
func insertItem(content []byte, marker, list, item string) ([]byte, error) {
	var wanted any
	if err := yaml.Unmarshal([]byte(item), &wanted); err != nil {
		return nil, err
	}
	has, err := hasItem(content, list, wanted)
	if has || err != nil {
		return content, err
	}
	block := "- " + strings.ReplaceAll(strings.TrimSpace(item), "\n", "\n  ") + "\n"
	lines := strings.SplitAfter(string(content), "\n")
	at := -1
	if marker != "" {
		at = slices.IndexFunc(lines, func(l string) bool {
			rest, ok := strings.CutPrefix(strings.TrimSpace(l), "#")
			return ok && strings.TrimSpace(rest) == markerPrefix+marker
		})
	}
	if at < 0 {
		at, lines = endOfList(lines, list)
	}
	indent := indentation(lines, list, at)
	block = indent + strings.ReplaceAll(strings.TrimSuffix(block, "\n"), "\n", "\n"+indent) + "\n"
	result := []byte(strings.Join(slices.Insert(lines, at, block), ""))
	if has, err := hasItem(result, list, wanted); err != nil || !has {
		return nil, fmt.Errorf("cannot insert into the list %q: insert this yourself:\n%s", list, block)
	}
	return result, nil
}

// hasItem reports whether a top-level list of a YAML file contains an item.
func hasItem(content []byte, list string, item any) (bool, error) {
	var all map[string]any
	if err := yaml.Unmarshal(content, &all); err != nil {
		return false, err
	}
	items, _ := all[list].([]any)
	wanted := fmt.Sprint(item)
	return slices.ContainsFunc(items, func(i any) bool { return fmt.Sprint(i) == wanted }), nil
}

// endOfList returns the index of the line after the last item of a list, and the lines. It adds the key if it is
// missing.
func endOfList(lines []string, list string) (int, []string) {
	key := regexp.MustCompile(`^` + regexp.QuoteMeta(list) + `:\s*(\[\s*\])?\s*(#.*)?$`)
	start := slices.IndexFunc(lines, func(l string) bool { return key.MatchString(strings.TrimRight(l, "\r\n")) })
	if start < 0 {
		if n := len(lines); lines[n-1] == "" {
			lines = lines[:n-1]
		} else {
			lines[n-1] += "\n"
		}
		lines = append(lines, "\n", list+":\n")
		return len(lines), lines
	}
	lines[start] = strings.Replace(lines[start], "[]", "", 1)
	end := start + 1
	for i := end; i < len(lines); i++ {
		switch l := lines[i]; {
		case strings.HasPrefix(l, "- ") || strings.HasPrefix(l, " "):
			end = i + 1
		case strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#"):
		default:
			return end, lines
		}
	}
	return end, lines
}

// indentation returns the indentation of the items of a list that begins before a line.
func indentation(lines []string, list string, before int) string {
	for i := before - 1; i >= 0 && !strings.HasPrefix(lines[i], list+":"); i-- {
		if trimmed := strings.TrimLeft(lines[i], " "); strings.HasPrefix(trimmed, "- ") {
			return lines[i][:len(lines[i])-len(trimmed)]
		}
	}
	return ""
}
