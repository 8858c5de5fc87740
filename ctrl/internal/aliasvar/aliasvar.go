// Package aliasvar lets a program set a package variable under a second import path. Go has aliases
// of types, but not of variables: a module that exports a package under another path, as module
// compat does, has a variable of its own, and the runtime has to read both.
package aliasvar

// Var reads a package variable or its alias, if it has one. Like the variables themselves, it is
// not safe for concurrent use while one of them is written.
type Var[T comparable] struct {
	// Original is the variable.
	Original *T

	alias   *T
	initial T
}

// SetAlias sets the alias. Its value now is the one that means that the program has not set it.
func (v *Var[T]) SetAlias(alias *T) { v.alias, v.initial = alias, *alias }

// Get returns the value of the alias if it has been changed, or else the original's value.
func (v *Var[T]) Get() T {
	if v.alias != nil && *v.alias != v.initial {
		return *v.alias
	}
	return *v.Original
}
