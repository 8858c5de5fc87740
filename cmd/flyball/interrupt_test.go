//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestInterruptedInit ends flyball init while go mod tidy runs, in each of the ways in which a terminal
// or a supervisor does so. Nothing is left in the folder.
func TestInterruptedInit(t *testing.T) {
	realGo, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			if ossignal.Ignored(signal) {
				t.Skip("this process ignores the signal, and so do those that it starts")
			}
			folder, bin := t.TempDir(), t.TempDir()
			fifo := filepath.Join(bin, "fifo")
			slowGo := "#!/bin/sh\nif [ \"$1\" = mod ]; then : >'" + fifo + "'; exec sleep 1000; fi\nexec '" + realGo + "' \"$@\"\n"
			if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(filepath.Join(bin, "go"), []byte(slowGo), 0o700)); err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), os.Args[0], "init", "--repo", "example.com/x", "--project-name", "x")
			cmd.Dir, cmd.Stderr = folder, &stderr
			cmd.Env = append(os.Environ(), "FLYBALL_MAIN=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.ReadFile(fifo); err != nil { // when go mod tidy runs
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the exit code is checked
			if code := cmd.ProcessState.ExitCode(); code != interrupted || !strings.Contains(stderr.String(), "interrupted") {
				t.Errorf("the exit code is %d: %s", code, &stderr)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("%d files are left, %v", len(left), err)
			}
		})
	}
}
