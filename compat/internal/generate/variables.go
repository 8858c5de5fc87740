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

// setsAlias reports whether a function is one of those.
func setsAlias(name string) bool {
	return slices.Contains(slices.Collect(maps.Values(readByRuntime)), name)
}
