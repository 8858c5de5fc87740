package discovery

import (
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// kubernetesVersion is the release whose API this server has: that of the k8s.io libraries.
const kubernetesVersion = "1.37.2"

// Version is what the server says of itself.
func Version() version.Info {
	release := strings.Split(kubernetesVersion, ".")
	return version.Info{
		Major:        release[0],
		Minor:        release[1],
		GitVersion:   "v" + kubernetesVersion + "+flyball",
		GitTreeState: "clean",
		GoVersion:    runtime.Version(),
		Compiler:     runtime.Compiler,
		Platform:     runtime.GOOS + "/" + runtime.GOARCH,
	}
}
