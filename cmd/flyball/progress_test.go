//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"flyball.dev/cmd/flyball/internal/testproject"
)

// TestProgress lets commands wait for the go command until they print their progress.
func TestProgress(t *testing.T) {
	realGo, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, command, want string }{
		{"vet ./...", "list", "flyball: loading packages and their dependencies"},
		{"generate object paths=./...", "list", "flyball: listing the packages and generating"},
		{"init --repo example.com/x --flyball-path " + testproject.Root(t), "mod", "flyball: making the project, with go mod tidy"},
	} {
		t.Run(strings.Fields(tt.args)[0], func(t *testing.T) {
			t.Parallel()
			bin, folder := t.TempDir(), t.TempDir()
			fifo := filepath.Join(bin, "fifo")
			slowGo := "#!/bin/sh\nif [ \"$1\" = " + tt.command + " ]; then read line <'" + fifo + "'; exit 7; fi\nexec '" + realGo + "' \"$@\"\n"
			if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(filepath.Join(bin, "go"), []byte(slowGo), 0o700)); err != nil {
				t.Fatal(err)
			}
			// Each go command that opens the pipe waits for a line in it.
			pipe, err := os.OpenFile(fifo, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(tt.args)...)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "FLYBALL_MAIN=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stderr)
			if !lines.Scan() || !progressLine.MatchString(lines.Text()) || !strings.HasPrefix(lines.Text(), tt.want+": ") {
				t.Errorf("the first line is %q, want %q", lines.Text(), tt.want)
			}
			if _, err := pipe.WriteString(strings.Repeat("\n", 100)); err != nil {
				t.Fatal(err)
			}
			for lines.Scan() { // until it ends
			}
			_ = cmd.Wait() // it fails
		})
	}
}
