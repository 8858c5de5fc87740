// Package surface compares what flyball.dev/ctrl exports with what controller-runtime exports.
//
// Each exported identifier of each importable package of controller-runtime is one or more lines: a
// constant with its value, a variable or function with its type, a type with its exported fields
// and methods. Import paths are rewritten, aliases are resolved and parameter names are left out,
// so that two lines are equal when a program cannot distinguish the identifiers.
//
// Every line of controller-runtime must have an equal one under flyball.dev/ctrl.
package surface

import (
	_ "flyball.dev/ctrl"
	_ "sigs.k8s.io/controller-runtime"
)
