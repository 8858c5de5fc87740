package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The checks of a manager with the option Development: what Warning.Check may be. Each is the name of
// a section of docs/development.md.
const (
	CheckHotLoops   = "hot-loops"
	CheckFights     = "fights"
	CheckOwners     = "owners"
	CheckFinalizers = "finalizers"
	CheckStatus     = "status"
	CheckAdoption   = "adoption"
	CheckConflicts  = "conflicts"
	CheckTwoLeaders = "two-leaders"
)

// Warning is a mistake of an operator that a manager with the option Development has found. Of
// the values of fields it has only names, UIDs and label selectors.
type Warning struct {
	// Check is the check that found it, one of the constants of this package.
	Check string

	// GVK and Object are the object. The GVK is empty if it is not known, as of the request of a
	// controller.
	GVK    schema.GroupVersionKind
	Object types.NamespacedName

	// Field is the path of the field.
	Field string

	// Writer is who writes the field: a controller of this manager, or a field manager.
	Writer string

	// Message is what happened and what to do about it.
	Message string
}

// Docs is the page and the section that explain the check.
func (w Warning) Docs() string { return "docs/development.md#" + w.Check }

// Error describes the warning in one line, so that a Warning can be used as an error.
func (w Warning) Error() string {
	object := w.Object.String()
	if w.Object.Namespace == "" {
		object = w.Object.Name
	}
	if w.GVK.Kind != "" {
		object = w.GVK.GroupKind().String() + " " + object
	}
	return fmt.Sprintf("%s: %s: %s, written by %s: %s (%s)", w.Check, object, w.Field, w.Writer, w.Message, w.Docs())
}
