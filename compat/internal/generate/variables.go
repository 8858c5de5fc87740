package main

import (
	"maps"
	"slices"
)

// readByRuntime has the variables that the runtime itself reads. Go has no aliases of variables, so
// for each of these there is a function that makes the runtime read the variable here too.
var readByRuntime = map[string]string{
	ownModule + "/log.Log":                           "AliasLog",
	ownModule + "/metrics.Registry":                  "AliasRegistry",
	ownModule + "/metrics/server.DefaultBindAddress": "AliasDefaultBindAddress",
	ownModule + "/webhook.DefaultPort":               "AliasDefaultPort",
}

// atInit has, by package, the function that a package here calls at initialization, so that the
// defaults are controller-runtime's defaults where Flyball's differ.
var atInit = map[string]string{
	ownModule + "/envtest": "DefaultToPrograms",
}

// forCompat reports whether a function is there for this module, which does not forward it.
func forCompat(path, name string) bool {
	return atInit[path] == name || slices.Contains(slices.Collect(maps.Values(readByRuntime)), name)
}
