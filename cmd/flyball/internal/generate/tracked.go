package generate

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// UnknownOptionsError says that nothing was written, because files that git tracks would change, and it
// cannot be told with which options they were generated.
type UnknownOptionsError struct {
	// Reason is why it cannot be told.
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

// keepTracked returns an error if a file would change that git tracks.
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

// trackedFiles returns the files, of some absolute paths, that git tracks. Without a repository, or without
// git, there are none.
func trackedFiles(paths []string) (tracked []string) {
	for _, path := range paths {
		dir, name := filepath.Split(path)
		command := exec.Command("git", "-C", dir, "ls-files", "--error-unmatch", "--", ":(literal)"+name)
		if command.Run() == nil {
			tracked = append(tracked, path)
		}
	}
	return tracked
}
