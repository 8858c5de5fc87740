package discovery

import (
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"flyball.dev/apiserver/resource"
)

// Version returns the version of the server.
//
//upstream:k8s.io/apiserver/pkg/server/routes.Version
func Version() version.Info {
	release := strings.Split(resource.Release, ".")
	return version.Info{
		Major:        release[0],
		Minor:        release[1],
		GitVersion:   "v" + resource.Release + "+flyball",
		GitTreeState: "clean",
		GoVersion:    runtime.Version(),
		Compiler:     runtime.Compiler,
		Platform:     runtime.GOOS + "/" + runtime.GOARCH,
	}
}
