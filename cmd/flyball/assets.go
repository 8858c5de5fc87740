package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// assets returns the command "flyball assets".
func assets() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "assets",
		Short: "Write stand-ins for kube-apiserver and etcd, for test suites on envtest",
		Long: `Write stand-ins for the programs kube-apiserver and etcd into a directory, with a link to
kubectl if it is installed, and print the directory.

A test suite that starts these programs, such as one on controller-runtime's envtest, then
runs on Flyball's control plane without a change. It starts faster than on the real ones,
and needs no download. No controllers run, as with envtest, unless $FLYBALL_CONTROLLERS
selects them, such as "garbagecollector,namespace", or "*" for all.

The programs are one copy of this one, by two names, on Linux without its symbols. They are
written again only if this one has changed.`,
		Example: `  export KUBEBUILDER_ASSETS=$(flyball assets)
  go test ./...

  export KUBEBUILDER_ASSETS=$(go run flyball.dev/cmd/flyball assets --dir bin/flyball)`,
		Args: noArgs("the directory is named by --dir"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			if dir == "" {
				if dir, err = defaultAssets(); err != nil {
					return err
				}
			}
			if dir, err = filepath.Abs(dir); err != nil {
				return err
			}
			if err := writeAssets(program, dir); err != nil {
				return fmt.Errorf("cannot write the programs to %s; another directory can be chosen with --dir: %w", dir, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the directory to write to; by default one below the user's cache directory")
	return cmd
}

// defaultAssets returns the default directory for this version, in the user's cache directory.
func defaultAssets() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no cache directory, choose a directory with --dir: %w", err)
	}
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		version = info.Main.Version
	}
	return filepath.Join(cache, "flyball", "assets", version), nil
}

// writeAssets writes the stand-ins for a program to a directory, and a link to kubectl. It is safe for concurrent use
// by several processes.
func writeAssets(program, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	server, etcd := filepath.Join(dir, "kube-apiserver"), filepath.Join(dir, "etcd")
	write := func(path string) error {
		if isCopy(path, info) {
			return nil
		}
		return replace(path, func(temporary string) error { return copyProgram(program, info, temporary) })
	}
	if err := write(server); err != nil {
		return err
	}
	if !linkProgram(server, etcd, os.Link) {
		if err := write(etcd); err != nil {
			return err
		}
	}
	return linkKubectl(dir)
}

// linkProgram makes to a link to from with the given function, and reports whether the result is recognized as a link.
// Some file systems do not support that.
func linkProgram(from, to string, link func(from, to string) error) bool {
	for range 10 { // again if another process has replaced one meanwhile
		if sameFile(from, to) {
			return true
		}
		if replace(to, func(temporary string) error { return link(from, temporary) }) != nil {
			return false
		}
	}
	return false
}

// isCopy reports whether path is a copy of a program, with the same modification time.
func isCopy(path string, program fs.FileInfo) bool {
	const executable = 0o100
	is, err := os.Stat(path)
	return err == nil && is.Mode().IsRegular() && is.Size() > 0 && is.Size() <= program.Size() &&
		is.ModTime().Equal(program.ModTime()) && is.Mode()&executable == program.Mode()&executable
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// replace atomically replaces path: it creates a file under a temporary name in the same directory, and renames it.
func replace(path string, write func(temporary string) error) error {
	directory, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	temporary := filepath.Join(directory, filepath.Base(path))
	if err := write(temporary); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// copyProgram copies a program, including its modification time. A link would not do: the program of "go run" is
// temporary, and other programs may be overwritten by the next build.
func copyProgram(program string, info fs.FileInfo, to string) error {
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, withoutSymbols(in, info.Size()))
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// linkKubectl links to the installed kubectl. If there is none, it removes a dangling link.
func linkKubectl(dir string) error {
	path := filepath.Join(dir, "kubectl")
	installed, err := exec.LookPath("kubectl")
	if err == nil {
		installed, err = filepath.EvalSymlinks(installed)
	}
	if err != nil {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(path)
		}
		return nil
	}
	if installed, err = filepath.Abs(installed); err != nil || installed == path {
		return err
	}
	if target, err := os.Readlink(path); err == nil && target == installed {
		return nil
	}
	return replace(path, func(temporary string) error { return os.Symlink(installed, temporary) })
}
