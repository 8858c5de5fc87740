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

	"flyball.dev/cmd/flyball/internal/testproject"
)

// TestInterruptedInit interrupts flyball init during go mod tidy, with the signals of a terminal and of a supervisor.
// The folder must stay empty.
func TestInterruptedInit(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			if ossignal.Ignored(signal) {
				t.Skip("this process ignores the signal, and so do those that it starts")
			}
			folder := t.TempDir()
			code, stderr := interruptGo(t, folder, signal, "mod", "init", "--repo", "example.com/x", "--project-name", "x",
				"--flyball-path", testproject.Root(t))
			if code != interrupted || !strings.Contains(stderr, "interrupted") {
				t.Errorf("the exit code is %d: %s", code, stderr)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("%d files are left, %v", len(left), err)
			}
		})
	}
}

// TestInterruptedWhilePackagesAreListed: flyball dev ends on Ctrl-C, which is no error, and flyball vet
// with the program that it has started.
func TestInterruptedWhilePackagesAreListed(t *testing.T) {
	for args, want := range map[string]int{"dev": 0, "vet ./...": interrupted} {
		t.Run(args, func(t *testing.T) {
			code, stderr := interruptGo(t, t.TempDir(), syscall.SIGINT, "list", strings.Fields(args)...)
			if code != want || want == 0 && stderr != "" {
				t.Errorf("the exit code is %d: %s", code, stderr)
			}
		})
	}
}

// interruptGo runs flyball in a folder and sends it a signal while it runs a go command. It returns the exit code and
// the standard error.
func interruptGo(t *testing.T, folder string, signal syscall.Signal, command string, args ...string) (code int, printed string) {
	t.Helper()
	realGo, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	fifo := filepath.Join(bin, "fifo")
	slowGo := "#!/bin/sh\nif [ \"$1\" = " + command + " ]; then : >'" + fifo + "'; exec sleep 1000; fi\nexec '" + realGo + "' \"$@\"\n"
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(filepath.Join(bin, "go"), []byte(slowGo), 0o700)); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Dir, cmd.Stderr = folder, &stderr
	cmd.Env = append(os.Environ(), "FLYBALL_MAIN=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the exit code is returned
		if f, err := os.OpenFile(fifo, os.O_RDWR, 0); err == nil {
			f.Close() // ends the reader, if flyball did not come to the command
		}
	}()
	if _, err := os.ReadFile(fifo); err != nil { // when the command runs
		t.Fatal(err)
	}
	err = cmd.Process.Signal(signal)
	<-ended
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}
