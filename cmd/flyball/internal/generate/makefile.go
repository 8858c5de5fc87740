package generate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// unknown replaces text that only make can determine.
const unknown = "\x00"

// makefile is the content of a Makefile and its included files, as far as it can be determined without running make.
// The output of functions such as $(shell ...) is unknown, and so are variables that are set in a conditional.
type makefile struct {
	dir       string // the absolute folder
	variables map[string]string
	functions map[string]string    // the text of each define
	rules     map[string]*makeRule // by target
	order     []string             // of the targets
}

// makeRule holds the prerequisites and the recipe of a target.
type makeRule struct {
	needs       []string
	recipe      []string // a line of the shell each
	conditional bool     // whether a conditional has a part of it
}

// readMakefile reads the Makefile of a folder. Without a Makefile there are no targets.
func readMakefile(dir string) (*makefile, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	m := &makefile{dir: abs, variables: map[string]string{"CURDIR": abs, "PWD": abs, "MAKE": "make"},
		functions: map[string]string{}, rules: map[string]*makeRule{}}
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} { // the order of GNU make
		if err := m.read(name, 0); !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
	}
	return m, nil
}

// maxIncludes is the maximum depth of includes, so that a cycle ends.
const maxIncludes = 10

var (
	assignment  = regexp.MustCompile(`^\s*(?:(?:export|override|private)\s+)*([^\s:#=!?+]+)\s*(:{0,3}=|\?=|\+=|!=)\s*(.*)$`)
	conditional = regexp.MustCompile(`^\s*(ifeq|ifneq|ifdef|ifndef|else|endif)\b`)
	// targetVariable matches a variable of a target, such as "manifests: OPTIONS = crd".
	targetVariable = regexp.MustCompile(`^[^:=#]+:\s*(?:(?:export|override|private)\s+)*([^\s:#=!?+]+)\s*(?::{0,3}=|\?=|\+=|!=)`)
	inclusion      = regexp.MustCompile(`^\s*[-s]?include\s+(.*)$`)
)

// read reads one of the files.
func (m *makefile) read(name string, depth int) error {
	content, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		return err
	}
	var current []*makeRule
	conditions, define := 0, ""
	for line := range strings.SplitSeq(joinLines(string(content)), "\n") {
		switch match := conditional.FindStringSubmatch(line); {
		case define != "" && strings.HasPrefix(strings.TrimSpace(line), "endef"):
			define = ""
		case define != "":
			m.functions[define] += recipeLine(line) + "\n"
		case strings.HasPrefix(line, "\t") && current != nil:
			for _, rule := range current {
				rule.recipe = append(rule.recipe, strings.TrimSpace(recipeLine(line)))
				rule.conditional = rule.conditional || conditions > 0
			}
		case strings.HasPrefix(strings.TrimSpace(line), "define "):
			define = strings.Trim(strings.TrimSpace(line)[len("define "):], " :?+=")
		case match != nil:
			conditions += map[string]int{"else": 0, "endif": -1}[match[1]] + map[bool]int{true: 1}[strings.HasPrefix(match[1], "if")]
		default:
			line = withoutComment(continuation.ReplaceAllString(line, " "))
			if include := inclusion.FindStringSubmatch(line); include != nil && depth < maxIncludes {
				for _, file := range strings.Fields(m.expand(include[1])) {
					_ = m.read(file, depth+1) // one that make would have to make first has no rules
				}
			} else if set := assignment.FindStringSubmatch(line); set != nil {
				m.set(set[1], set[2], set[3], conditions > 0)
			} else if set := targetVariable.FindStringSubmatch(line); set != nil {
				m.set(set[1], "=", "", true) // make has one value for the target, and another for the rest
			} else if rules := m.rule(line); rules != nil {
				current = rules
			}
		}
	}
	return nil
}

// continued stands for the end of a line that ends with a backslash.
const continued = "\\\x01"

// continuation matches what make replaces by a space, outside of recipes.
var continuation = regexp.MustCompile(`\s*\\\x01\s*`)

// joinLines joins continued lines.
func joinLines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n", continued)
}

// recipeLine returns a joined line of a recipe as the shell sees it: continued lines without their tab.
func recipeLine(line string) string {
	return strings.ReplaceAll(strings.ReplaceAll(line, continued+"\t", "\\\n"), continued, "\\\n")
}

// withoutComment returns a line without its comment.
func withoutComment(line string) string {
	if i := strings.IndexByte(line, '#'); i >= 0 && (i == 0 || line[i-1] != '\\') {
		return line[:i]
	}
	return line
}

// set sets a variable.
func (m *makefile) set(name, operator, value string, conditional bool) {
	before, isSet := m.variables[name]
	switch operator {
	case "?=":
		if fromOutside, ok := os.LookupEnv(name); ok && !isSet {
			value = fromOutside
		} else if isSet {
			return
		}
	case "+=":
		value = strings.TrimSpace(before + " " + value)
	case ":=", "::=", ":::=":
		value = m.expand(value)
	case "!=":
		value = unknown
	}
	if conditional {
		value = unknown
	}
	m.variables[name] = value
}

// rule parses the first line of a rule, and returns the rules of its targets. It returns nil if the line begins no
// rule.
func (m *makefile) rule(line string) (rules []*makeRule) {
	targets, rest, ok := strings.Cut(m.expand(line), ":")
	if !ok {
		return nil
	}
	needs, recipe, _ := strings.Cut(strings.TrimPrefix(rest, ":"), ";")
	for _, target := range strings.Fields(targets) {
		rule := m.rules[target]
		if rule == nil {
			rule = &makeRule{}
			m.rules[target] = rule
			m.order = append(m.order, target)
		}
		rule.needs = append(rule.needs, strings.Fields(strings.ReplaceAll(needs, "|", " "))...)
		if recipe = strings.TrimSpace(recipe); recipe != "" {
			rule.recipe = append(rule.recipe, recipe)
		}
		rules = append(rules, rule)
	}
	return rules
}

// controllerGen matches the usual variables for the path of controller-gen.
var controllerGen = regexp.MustCompile(`(?i)^controller[-_]?gen$`)

// expand expands variables. References to functions and to unset variables become unknown.
func (m *makefile) expand(text string) string { return m.expandWithin(text, 0) }

func (m *makefile) expandWithin(text string, depth int) string {
	const limit = 20 // of references in references, which may be a cycle
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(text, "$")
		out.WriteString(before)
		if !ok || after == "" {
			return out.String()
		}
		name, rest := reference(after)
		text = rest
		value, isSet := m.variables[name]
		switch {
		case name == "$":
			out.WriteString("$")
		case controllerGen.MatchString(name) && !strings.Contains(value, "go run") && !strings.Contains(value, "go tool"):
			out.WriteString("controller-gen")
		case isSet && depth < limit:
			out.WriteString(m.expandWithin(value, depth+1))
		default:
			out.WriteString(m.function(name))
		}
	}
}

// function evaluates the functions that projects use in options.
func (m *makefile) function(call string) string {
	switch call = strings.Join(strings.Fields(call), " "); {
	case call == "shell pwd", strings.HasPrefix(call, "shell dirname ") && strings.Contains(call, "MAKEFILE_LIST"),
		strings.HasPrefix(call, "patsubst %/,%,") && strings.Contains(call, "MAKEFILE_LIST"):
		return m.dir
	case call == "shell date +%Y":
		return time.Now().Format("2006")
	}
	return unknown
}

// calls returns the lines of the shell for a line of a recipe. For a call of a define, these are the lines of the define.
func (m *makefile) calls(line string) string {
	if call, ok := strings.CutPrefix(line, "$(call "); ok {
		name, _, _ := strings.Cut(call, ",")
		if text, ok := m.functions[strings.TrimSpace(name)]; ok {
			return strings.TrimLeft(text, recipePrefixes)
		}
	}
	return line
}

// recipePrefixes are the characters before a command of a recipe that are make's.
const recipePrefixes = "@-+ "

// reference splits a text into a leading variable name or function call, and the rest.
func reference(text string) (name, rest string) {
	closing, ok := map[byte]byte{'(': ')', '{': '}'}[text[0]]
	if !ok {
		return text[:1], text[1:]
	}
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case text[0]:
			depth++
		case closing:
			if depth--; depth == 0 {
				return text[1:i], text[i+1:]
			}
		}
	}
	return text[1:], ""
}

// hasBraces reports whether the shell of the recipes expands braces. The default, /bin/sh, need not.
func (m *makefile) hasBraces() bool {
	shell := m.expand(m.variables["SHELL"])
	return strings.Contains(shell, "bash") || strings.Contains(shell, "zsh") || strings.Contains(shell, "ksh")
}

// closure returns targets and all their prerequisites, in the order in which make would make them.
func (m *makefile) closure(targets ...string) (all []*makeRule) {
	var seen []string
	var visit func(target string)
	visit = func(target string) {
		rule := m.rules[target]
		if rule == nil || slices.Contains(seen, target) {
			return
		}
		seen = append(seen, target)
		for _, need := range rule.needs {
			visit(need)
		}
		all = append(all, rule)
	}
	for _, target := range targets {
		visit(target)
	}
	return all
}
