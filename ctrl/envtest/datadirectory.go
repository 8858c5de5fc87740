package envtest

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// dataDirectory returns where setup-envtest keeps its data, by the conventions of the system.
func dataDirectory() (string, error) {
	const name = "kubebuilder-envtest"
	switch runtime.GOOS {
	case "windows":
		if base := os.Getenv("LocalAppData"); base != "" {
			return filepath.Join(base, name), nil
		}
		return "", errors.New("the environment variable LocalAppData is not set")
	case "darwin", "ios":
		if home := os.Getenv("HOME"); home != "" {
			return filepath.Join(home, "Library", "Application Support", "io.kubebuilder.envtest"), nil
		}
		return "", errors.New("the environment variable HOME is not set")
	}
	if base := os.Getenv("XDG_DATA_HOME"); base != "" {
		return filepath.Join(base, name), nil
	}
	if home := os.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "share", name), nil
	}
	return "", errors.New("neither of the environment variables XDG_DATA_HOME and HOME is set")
}
