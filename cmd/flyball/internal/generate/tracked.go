package generate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// UnknownOptionsError means that Run has written nothing, because files that git tracks would change and the options
// that generated them are unknown.
type UnknownOptionsError struct {
	// Reason is the reason why the options are unknown.
	Reason string
	// Files are the tracked files that would change.
	Files []string
}

// Error implements error.
func (e *UnknownOptionsError) Error() string {
	return fmt.Sprintf("nothing is written: %s would change, which git tracks, and the options of this project cannot be told: %s; "+
		"name them, as in \"flyball generate crd object paths=./...\", or in PROJECT under plugins: flyball.dev/v1: generate:",
		strings.Join(e.Files, ", "), e.Reason)
}

// keepTracked returns an error if a tracked file would change.
func keepTracked(files []File, reason string) error {
	changed := map[string]string{} // paths by absolute path
	for _, file := range files {
		if file.State == Updated {
			changed[file.path] = file.Path
		}
	}
	tracked := trackedFiles(sortedKeys(changed))
	if len(tracked) == 0 {
		return nil
	}
	err := &UnknownOptionsError{Reason: reason}
	for _, path := range tracked {
		err.Files = append(err.Files, changed[path])
	}
	return err
}

// trackedFiles returns the files among absolute paths that git tracks, or none without a repository. If git fails, for
// instance because another user owns the repository or git is not installed, it assumes that all files are tracked.
func trackedFiles(paths []string) (tracked []string) {
	for _, path := range paths {
		dir, name := filepath.Split(path)
		command := exec.Command("git", "-C", dir, "ls-files", "--error-unmatch", "--", ":(literal)"+name)
		err := command.Run()
		var exit *exec.ExitError
		says := err == nil || errors.As(err, &exit) && exit.ExitCode() == untracked
		if err == nil || !says && inRepository(dir) {
			tracked = append(tracked, path)
		}
	}
	return tracked
}

// untracked is the exit code of "git ls-files --error-unmatch" for a file that git does not track.
const untracked = 1

// inRepository reports whether a folder is in a git repository.
func inRepository(dir string) bool {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}
