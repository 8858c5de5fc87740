package shell

import (
	"maps"
	"slices"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxIndex bounds the index of an array.
const maxIndex = 1 << 31

// asArray returns a variable as an array that is not shared with others.
func asArray(v expand.Variable) expand.Variable {
	switch v.Kind {
	case expand.Indexed:
		v.List, v.Indexes = slices.Clone(v.List), slices.Clone(v.Indexes)
	case expand.Associative:
		if v.Map = maps.Clone(v.Map); v.Map == nil {
			v.Map = map[string]string{}
		}
	default:
		if v.Set {
			v.List = []string{v.Str}
		}
		v.Kind, v.Str = expand.Indexed, ""
	}
	v.Set = true
	return v
}

// put sets an element of an indexed array.
func put(v *expand.Variable, index int, text string, appends bool) {
	if v.Indexes == nil {
		if index == len(v.List) {
			v.List = append(v.List, text)
			return
		}
		if index > len(v.List) {
			v.Indexes = make([]int, len(v.List))
			for i := range v.Indexes {
				v.Indexes[i] = i
			}
		}
	}
	at, found := index, index < len(v.List)
	if v.Indexes != nil {
		at, found = slices.BinarySearch(v.Indexes, index)
	}
	switch {
	case found && appends:
		v.List[at] += text
	case found:
		v.List[at] = text
	default:
		v.List = slices.Insert(v.List, at, text)
		v.Indexes = slices.Insert(v.Indexes, at, index)
	}
}

// last returns the greatest index of an indexed array, or -1.
func last(v *expand.Variable) int {
	if n := len(v.Indexes); n > 0 {
		return v.Indexes[n-1]
	}
	return len(v.List) - 1
}

// setElement returns a variable with another element.
func (in *interpreter) setElement(name string, v expand.Variable, index syntax.ArithmExpr, text string, appends bool) (string, expand.Variable, bool) {
	v = asArray(v)
	if v.Kind == expand.Associative {
		key := "0"
		if w, ok := index.(*syntax.Word); ok {
			if key, ok = in.literal(w); !ok {
				return name, v, false
			}
		}
		if appends {
			text = v.Map[key] + text
		}
		v.Map[key] = text
		return name, v, true
	}
	at := 0
	if index != nil {
		n, ok := in.arithmetic(index)
		if !ok {
			return name, v, false
		}
		at = n
	}
	if at < 0 {
		at += last(&v) + 1
	}
	if at < 0 || at > maxIndex {
		in.fail("%s: bad array subscript", name)
		return name, v, false
	}
	put(&v, at, text, appends)
	return name, v, true
}

// arrayValue evaluates NAME=(...).
func (in *interpreter) arrayValue(name string, v expand.Variable, a *syntax.Assign) (string, expand.Variable, bool) {
	if a.Append {
		v = asArray(v)
	} else {
		v.Set, v.Str, v.List, v.Indexes = true, "", nil, nil
		if v.Kind == expand.Associative {
			v.Map = map[string]string{}
		} else {
			v.Kind = expand.Indexed
		}
	}
	for _, e := range a.Array.Elems {
		in.step(1)
		if e.Index != nil {
			text, ok := in.literal(e.Value)
			if !ok {
				return name, v, false
			}
			if _, v, ok = in.setElement(name, v, e.Index, text, false); !ok {
				return name, v, false
			}
			continue
		}
		if v.Kind == expand.Associative {
			in.fail("%s: an element of an associative array has no key", name)
			return name, v, false
		}
		fields, ok := in.fields([]*syntax.Word{e.Value})
		if !ok {
			return name, v, false
		}
		for _, f := range fields {
			put(&v, last(&v)+1, f, false)
		}
	}
	if v.Kind == expand.Indexed && v.List == nil {
		v.List = []string{}
	}
	return name, v, true
}
