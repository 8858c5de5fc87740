package scaffold

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"flyball.dev/cmd/flyball/internal/testproject"
	_ "flyball.dev/internal/orphans"
)

// TestWorkspace runs the commands of docs/start.md for a colleague with the clone in another folder than the folder in
// go.mod.
func TestWorkspace(t *testing.T) {
	root := testproject.Root(t)
	page := read(t, root, "docs/start.md")
	commands := regexp.MustCompile(`(?m)^    (go work .*?)(?:  +#.*)?$`).FindAllStringSubmatch(page, -1)
	if len(commands) == 0 {
		t.Fatal("docs/start.md has no such commands")
	}
	folder := newKind(t)
	module := read(t, folder, "go.mod")
	if !strings.Contains(module, root) {
		t.Fatalf("go.mod does not name %s", root)
	}
	write(t, folder, "go.mod", strings.ReplaceAll(module, root, filepath.Join(t.TempDir(), "elsewhere")))
	run := func(command ...string) error {
		c := exec.CommandContext(t.Context(), command[0], command[1:]...)
		c.Dir, c.Env = folder, append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath -buildvcs=false")
		text, err := c.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, text)
		}
		return nil
	}
	if run("go", "list", "-deps", "./...") == nil {
		t.Error("the packages are found without a workspace")
	}
	for _, command := range commands {
		if err := run(strings.Fields(strings.ReplaceAll(command[1], "../flyball", root))...); err != nil {
			t.Fatal(err)
		}
	}
	if err := run("go", "list", "-deps", "./..."); err != nil {
		t.Error(err)
	}
}
