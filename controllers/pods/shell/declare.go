package shell

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

func unset(in *interpreter, args []string) int {
	functions, status := false, 0
	for _, name := range args[1:] {
		switch {
		case name == "-f":
			functions = true
		case name == "-v":
			functions = false
		case functions:
			delete(in.functions, name)
		case strings.HasSuffix(name, "]") && strings.Contains(name, "["):
			status = in.unsetElement(name)
		default:
			if err := in.assign(name, expand.Variable{}); err != nil {
				status = in.fail("unset: %v", err)
			}
		}
	}
	return status
}

// unsetElement removes NAME[INDEX].
func (in *interpreter) unsetElement(arg string) int {
	name, index, _ := strings.Cut(strings.TrimSuffix(arg, "]"), "[")
	v := in.scope.find(name).variables[name]
	switch v.Kind {
	case expand.Associative:
		v.Map = maps.Clone(v.Map)
		delete(v.Map, index)
	case expand.Indexed:
		n, err := strconv.Atoi(index)
		if err != nil {
			return in.fail("unset: %s: bad array subscript", arg)
		}
		v = asArray(v)
		if v.Indexes == nil {
			for i := range v.List {
				v.Indexes = append(v.Indexes, i)
			}
		}
		if at, ok := slices.BinarySearch(v.Indexes, n); ok {
			v.List, v.Indexes = slices.Delete(v.List, at, at+1), slices.Delete(v.Indexes, at, at+1)
		}
	default:
		return 0
	}
	if err := in.assign(name, v); err != nil {
		return in.fail("unset: %v", err)
	}
	return 0
}

// declare executes export, readonly, local, declare and typeset.
func (in *interpreter) declare(c *syntax.DeclClause) {
	variant := c.Variant.Value
	in.status = 0
	var flags string
	var assigns []*syntax.Assign
	for _, a := range c.Args {
		if a.Name != nil {
			assigns = append(assigns, a)
			continue
		}
		fields, ok := in.fields([]*syntax.Word{a.Value})
		if !ok {
			return
		}
		for _, f := range fields {
			if strings.HasPrefix(f, "-") || strings.HasPrefix(f, "+") {
				flags += f[1:]
				if f[0] == '+' {
					flags += "+"
				}
				continue
			}
			name, value, ok := strings.Cut(f, "=")
			if !syntax.ValidName(name) {
				in.fail("%s: %s: bad variable name", variant, name)
				return
			}
			assigns = append(assigns, &syntax.Assign{Name: &syntax.Lit{Value: name}, Naked: !ok,
				Value: &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: value}}}})
		}
	}
	if variant == "local" && in.calls == 0 {
		in.fail("local: not in a function")
		return
	}
	has := func(flag string) bool { return strings.Contains(flags, flag) }
	if has("f") || has("F") || has("i") || has("l") || has("u") {
		in.fail("%s: option -%s is not supported", variant, flags)
		return
	}
	if len(assigns) == 0 || has("p") {
		in.listVariables(variant, flags, assigns)
		return
	}
	for _, a := range assigns {
		in.declareOne(variant, flags, a)
		if in.status != 0 {
			return
		}
	}
}

// declareOne declares a variable.
func (in *interpreter) declareOne(variant, flags string, a *syntax.Assign) {
	has := func(flag string) bool { return strings.Contains(flags, flag) }
	off := has("+")
	name := a.Name.Value
	v := in.scope.find(name).variables[name]
	local := variant == "local" || (variant == "declare" || variant == "typeset") && in.calls > 0 && !has("g")
	if local && in.scope.parent != nil {
		if _, ok := in.scope.variables[name]; !ok {
			v = expand.Variable{Exported: v.Exported}
		}
	} else {
		local = false
	}
	switch {
	case has("A") && v.Kind != expand.Associative:
		v.Kind, v.Map, v.Str = expand.Associative, map[string]string{}, ""
	case has("a") && v.Kind != expand.Indexed:
		v = asArray(v)
	}
	if !a.Naked {
		declared := in.scope
		in.scope = &scope{variables: map[string]expand.Variable{name: v}, parent: declared}
		_, value, ok := in.value(a)
		in.scope = declared
		if !ok {
			in.status = 1
			return
		}
		v = value
	}
	if has("n") {
		v.Kind = expand.NameRef
	}
	if variant == "export" || has("x") {
		v.Exported = !off && !(variant == "export" && has("n"))
		if variant == "export" && has("n") {
			v.Kind = expand.String
		}
	}
	v.Local = local
	if local {
		if _, ok := in.scope.variables[name]; !ok && !v.Declared() {
			v.Local = true
		}
	}
	readOnly := (variant == "readonly" || has("r")) && !off
	if err := in.assign(name, v); err != nil {
		in.fail("%s: %v", variant, err)
		return
	}
	if readOnly {
		s := in.scope.find(name)
		v := s.variables[name]
		v.ReadOnly = true
		s.variables[name] = v
	}
}

// listVariables lists the declared variables.
func (in *interpreter) listVariables(variant, flags string, assigns []*syntax.Assign) {
	all := map[string]expand.Variable{}
	for s := in.scope; s != nil; s = s.parent {
		for name, v := range s.variables {
			if _, ok := all[name]; !ok {
				all[name] = v
			}
		}
	}
	wanted := func(name string, v expand.Variable) bool {
		if len(assigns) > 0 {
			return slices.ContainsFunc(assigns, func(a *syntax.Assign) bool { return a.Name.Value == name })
		}
		return v.Set && (variant != "export" && !strings.Contains(flags, "x") || v.Exported) && (variant != "readonly" && !strings.Contains(flags, "r") || v.ReadOnly)
	}
	word := variant
	if variant == "typeset" || variant == "local" {
		word = "declare"
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		v := all[name]
		if !wanted(name, v) {
			continue
		}
		switch {
		case word != "declare":
			fmt.Fprintf(in.stdout(), "%s %s=%s\n", word, name, quote(v.String()))
		case v.Kind == expand.Indexed || v.Kind == expand.Associative:
			fmt.Fprintf(in.stdout(), "declare -%s %s=(%s)\n", v.Flags(), name, strings.Join(elements(v), " "))
		default:
			fmt.Fprintf(in.stdout(), "declare -%s %s=%s\n", cmp.Or(v.Flags(), "-"), name, strconv.Quote(v.Str))
		}
	}
}

// elements returns the elements of an array as declare prints them.
func elements(v expand.Variable) (list []string) {
	for i, e := range v.List {
		if v.Indexes != nil {
			i = v.Indexes[i]
		}
		list = append(list, fmt.Sprintf("[%d]=%q", i, e))
	}
	for _, key := range slices.Sorted(maps.Keys(v.Map)) {
		list = append(list, fmt.Sprintf("[%s]=%q", key, v.Map[key]))
	}
	return list
}
