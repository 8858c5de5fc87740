package envtest

import (
	"maps"
	"slices"
)

// Arguments are the flags of a program, by name.
type Arguments struct{ values map[string]Arg }

// EmptyArguments returns arguments without any flag.
var EmptyArguments = func() *Arguments { return &Arguments{values: map[string]Arg{}} }

// Arg is the value of a flag.
type Arg interface {
	// Append returns the flag with more values.
	Append(vals ...string) Arg
	// Get returns the values, given the default ones. Nil leaves the flag out, and an empty slice passes
	// its name alone.
	Get(defaults []string) []string
}

// values are the values of a flag, instead of the default ones or after them.
type values struct {
	set      []string
	defaults bool
}

func (v values) Append(more ...string) Arg {
	return values{set: slices.Concat(v.set, more), defaults: v.defaults}
}

func (v values) Get(defaults []string) []string {
	if v.defaults {
		return slices.Concat(defaults, v.set)
	}
	return v.set
}

// absent is a flag that is left out, until a value is appended.
type absent struct{}

func (absent) Append(vals ...string) Arg { return values{set: vals} }
func (absent) Get([]string) []string     { return nil }

// nameOnly is a flag without a value.
type nameOnly struct{}

func (nameOnly) Append(...string) Arg  { return nameOnly{} }
func (nameOnly) Get([]string) []string { return []string{} }

// Get returns the value of a flag. It is never nil.
func (a *Arguments) Get(key string) Arg {
	if v, ok := a.values[key]; ok {
		return v
	}
	return values{defaults: true}
}

// Enable passes the name of a flag, without a value.
func (a *Arguments) Enable(key string) *Arguments { return a.SetRaw(key, nameOnly{}) }

// Disable leaves a flag out, also if it has a default.
func (a *Arguments) Disable(key string) *Arguments { return a.SetRaw(key, absent{}) }

// Append adds values to a flag, after the default ones and those before.
func (a *Arguments) Append(key string, vals ...string) *Arguments {
	return a.SetRaw(key, a.Get(key).Append(vals...))
}

// AppendNoDefaults adds values to a flag. If it has none yet, they replace the default ones.
func (a *Arguments) AppendNoDefaults(key string, vals ...string) *Arguments {
	v, ok := a.values[key]
	if !ok {
		v = values{}
	}
	return a.SetRaw(key, v.Append(vals...))
}

// Set replaces the values of a flag, also the default ones.
func (a *Arguments) Set(key string, vals ...string) *Arguments {
	return a.SetRaw(key, values{set: vals})
}

// SetRaw sets a flag.
func (a *Arguments) SetRaw(key string, val Arg) *Arguments {
	if a.values == nil {
		a.values = map[string]Arg{}
	}
	a.values[key] = val
	return a
}

// AsStrings returns the flags as a program gets them, ordered by name, with the default values of
// those that are not set.
func (a *Arguments) AsStrings(defaults map[string][]string) []string {
	names := map[string]bool{}
	for name := range defaults {
		names[name] = true
	}
	for name := range a.values {
		names[name] = true
	}
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		vals := a.Get(name).Get(defaults[name])
		if vals != nil && len(vals) == 0 {
			flags = append(flags, "--"+name)
		}
		for _, val := range vals {
			flags = append(flags, "--"+name+"="+val)
		}
	}
	return flags
}
