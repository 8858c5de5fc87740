package dev

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"flyball.dev/cmd/flyball/internal/process"
)

const (
	managerPackage = "flyball.dev/ctrl/manager"
	// consolePackage gives a console to each manager that has none.
	consolePackage = "flyball.dev/ctrl/console/always"
	// consoleFile is the name of the file that imports the package. No file of the project has it.
	consoleFile = "zz_flyball_dev_console.go"
)

// overlay adds a file that imports consolePackage to the main package of an operator, without a change in its folder.
type overlay struct {
	path  string // for go build -overlay, empty for none
	asked bool
	goMod string // the content of go.mod when the project was asked
}

// file returns the path of the file for go build -overlay, in the folder dir, or "" if the program links no manager of
// Flyball, or if the console does not build in its module, as with a vendor folder without it. It asks again when go.mod has
// changed.
func (o *overlay) file(ctx context.Context, pkg, dir string) string {
	goMod, _ := os.ReadFile("go.mod") // the module may be in a folder above; then it is asked once
	if o.asked && o.goMod == string(goMod) {
		return o.path
	}
	path, err := newOverlay(ctx, pkg, dir)
	if err != nil {
		return "" // the build says why, if it fails as well
	}
	o.path, o.asked, o.goMod = path, true, string(goMod)
	return o.path
}

// newOverlay writes the files, and returns "" if the console cannot be linked.
func newOverlay(ctx context.Context, pkg, dir string) (string, error) {
	folder, err := list(ctx, "-find", "-f", "{{.Dir}}", pkg)
	if err != nil {
		return "", err
	}
	linked, err := list(ctx, "-e", "-deps", pkg)
	if err != nil {
		return "", err
	}
	if !slices.Contains(linked, managerPackage) || len(folder) != 1 {
		return "", nil
	}
	if _, err := list(ctx, "-deps", consolePackage); err != nil {
		return "", ctx.Err()
	}
	source, path := filepath.Join(dir, "console.go"), filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(folder[0], consoleFile): source}})
	return path, errors.Join(err, os.WriteFile(path, content, 0o600),
		os.WriteFile(source, []byte("package main\n\nimport _ \""+consolePackage+"\"\n"), 0o600))
}

// list returns the lines of go list.
func list(ctx context.Context, args ...string) ([]string, error) {
	out, err := process.Command(ctx, "go", append([]string{"list", clusterTags}, args...)...).Output()
	return strings.Split(strings.TrimSpace(string(out)), "\n"), err
}
