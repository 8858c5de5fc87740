package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"flyball.dev/cmd/flyball/internal/terminal/pty"
)

// TestErrorsAreRed: errors are red on a terminal, unless NO_COLOR is set, and nowhere else.
func TestErrorsAreRed(t *testing.T) {
	const red, reset = "\x1b[31m", "\x1b[0m"
	flyball, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := project(t, "\treturn nothing, err")
	for _, tt := range []struct {
		name string
		args []string
		env  string
		want string
	}{
		{"an unknown command", []string{"nonsense"}, "", red + "flyball: unknown command \"nonsense\" for \"flyball\"" + reset + "\n"},
		{"NO_COLOR", []string{"nonsense"}, "NO_COLOR=1", "flyball: unknown command \"nonsense\" for \"flyball\"\n"},
		{"a terminal without colours", []string{"nonsense"}, "TERM=dumb", "flyball: unknown command \"nonsense\" for \"flyball\"\n"},
		{"what does not compile", []string{"vet"}, "", red + "reconciler.go:6:9: undefined: nothing\n" + reset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := func(stderr io.Writer) {
				cmd := exec.CommandContext(t.Context(), flyball, tt.args...)
				cmd.Dir, cmd.Stderr = folder, stderr
				cmd.Env = append(os.Environ(), "FLYBALL_MAIN=1", "GOFLAGS=-mod=mod", "GOWORK=off", "NO_COLOR=", "TERM=xterm", tt.env)
				_ = cmd.Run() // it fails
			}
			terminal, written := pty.New(t)
			run(terminal)
			got := written()
			got = got[strings.LastIndex(got, "\r\x1b[K")+1:] // the progress is erased
			if got = strings.TrimPrefix(got, "\x1b[K"); got != tt.want {
				t.Errorf("on a terminal it is %q, want %q", got, tt.want)
			}
			var file strings.Builder
			run(&file)
			if strings.Contains(file.String(), "\x1b") {
				t.Errorf("elsewhere it is %q", file.String())
			}
		})
	}
}
