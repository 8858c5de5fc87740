// Package aliasvar makes package variables that a package with another import path has too. Go has
// aliases of types, but not of variables.
package aliasvar

// Var is a package variable and its alias, if it has one. Like the variables themselves, it is not
// safe for concurrent use while one of them is written.
type Var[T comparable] struct {
	// Original is the variable.
	Original *T

	alias   *T
	initial T
}

// SetAlias sets the alias, whose value is the default from then on.
func (v *Var[T]) SetAlias(alias *T) { v.alias, v.initial = alias, *alias }

// Get returns the value of the alias if it has been changed, or else that of the original.
func (v *Var[T]) Get() T {
	if v.alias != nil && *v.alias != v.initial {
		return *v.alias
	}
	return *v.Original
}
