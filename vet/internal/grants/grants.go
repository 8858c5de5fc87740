// Package grants reads what the RBAC markers and the roles of an operator's module grant.
package grants

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Grant is the permission of one marker, or of one rule of a role.
type Grant struct{ Groups, Resources, Verbs []string }

// Allows reports whether a grant has one of the verbs. A group that is not known is not compared.
func (g Grant) Allows(group string, known bool, resource string, verbs []string) bool {
	has := func(list []string, wanted string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return s == "*" || strings.EqualFold(s, wanted) })
	}
	base, sub, isSub := strings.Cut(resource, "/")
	matches := has(g.Resources, resource)
	if !known {
		// The plural may be another than the usual one.
		matches = matches || slices.ContainsFunc(g.Resources, func(s string) bool {
			b, bs, _ := strings.Cut(s, "/")
			return bs == sub && len(b) > 3 && len(base) > 3 && strings.HasPrefix(strings.ToLower(b), base[:len(base)-2])
		})
	}
	matches = matches || isSub && has(g.Resources, "*/"+sub)
	return matches && (!known || has(g.Groups, group)) && slices.ContainsFunc(verbs, func(v string) bool { return has(g.Verbs, v) })
}

// ofModule has the results of InModule.
var ofModule sync.Map

var marker = regexp.MustCompile(`(?m)^\s*//\s*\+kubebuilder:rbac:(.*)$`)

// InModule returns what the markers and the roles in the files of a module grant, by folder. The
// markers may be in any package, so InModule reads all of them, as the generator does.
func InModule(root string) map[string][]Grant {
	if found, ok := ofModule.Load(root); ok {
		return found.(map[string][]Grant)
	}
	all := map[string][]Grant{}
	filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if entry.IsDir() {
			if path != root && (skipped(entry.Name()) || exists(filepath.Join(path, "go.mod"))) {
				return filepath.SkipDir
			}
			return nil
		}
		if extension := filepath.Ext(path); extension == ".yaml" || extension == ".yml" {
			if relative, err := filepath.Rel(root, path); err == nil && !isSample(relative) {
				content, _ := os.ReadFile(path)
				all[path] = rolesIn(string(content))
			}
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			content, _ := os.ReadFile(path)
			for _, match := range marker.FindAllSubmatch(content, -1) {
				all[filepath.Dir(path)] = append(all[filepath.Dir(path)], parse(string(match[1])))
			}
		}
		return nil
	})
	ofModule.Store(root, all)
	return all
}

func skipped(name string) bool {
	return name == "vendor" || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// isSample reports whether a file of a module is in a folder for samples or tests, which nobody deploys with the operator.
func isSample(path string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(path), "/"), func(folder string) bool {
		switch folder {
		case "doc", "docs", "example", "examples", "sample", "samples", "test", "tests", "e2e", "hack":
			return true
		}
		return false
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ModuleRoot returns the folder with the go.mod that a folder is at or below. If there is none, it
// returns the folder itself and false.
func ModuleRoot(folder string) (root string, ok bool) {
	for at := folder; ; at = filepath.Dir(at) {
		if exists(filepath.Join(at, "go.mod")) {
			return at, true
		}
		if at == filepath.Dir(at) {
			return folder, false
		}
	}
}

var braces = regexp.MustCompile(`\{[^}]*\}`)

// OfMarker returns what a comment grants, if it is a marker.
func OfMarker(comment string) (Grant, bool) {
	match := marker.FindStringSubmatch(comment)
	if match == nil {
		return Grant{}, false
	}
	return parse(match[1]), true
}

// parse parses the arguments of a marker.
func parse(arguments string) Grant {
	var g Grant
	// A list is either a;b or {a,b}.
	lists := braces.ReplaceAllStringFunc(strings.TrimSpace(arguments), func(list string) string {
		return strings.ReplaceAll(strings.Trim(list, "{}"), ",", ";")
	})
	for argument := range strings.SplitSeq(lists, ",") {
		name, value, _ := strings.Cut(argument, "=")
		var values []string
		for v := range strings.SplitSeq(value, ";") {
			values = append(values, strings.Trim(strings.TrimSpace(v), "\"`"))
		}
		switch strings.TrimSpace(name) {
		case "groups":
			g.Groups = values
			if slices.Contains(values, "core") {
				g.Groups = append(g.Groups, "")
			}
		case "resources":
			g.Resources = values
		case "verbs":
			g.Verbs = values
		}
	}
	return g
}
