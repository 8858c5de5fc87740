package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// kubernetesVersion is the version of k8s.io/kubernetes in kubernetes/go.mod.
const kubernetesVersion = "v1.37.2"

// binaries are the programs, in the directory where they are cached, and how kube-apiserver runs.
type binaries struct {
	apiserver, etcd, controllerManager string
	// fsync makes etcd durable. Without it, etcd is as envtest runs it.
	fsync bool
	// etcdServers is the URL of the etcd server to store in. If it is empty, kube-apiserver has an etcd of its own.
	etcdServers string
	// controllers says that kube-controller-manager runs too.
	controllers bool
}

// cached returns where the programs are, or would be.
func cached() (binaries, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return binaries{}, err
	}
	dir = filepath.Join(dir, "flyball-oracle", kubernetesVersion+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	file := func(name string) string { return filepath.Join(dir, name) }
	return binaries{apiserver: file("kube-apiserver"), etcd: file("etcd"), controllerManager: file("kube-controller-manager")}, nil
}

// exist reports whether the programs that run have been built.
func (b binaries) exist() bool {
	files := []string{b.apiserver, b.etcd}
	if b.controllers {
		files = append(files, b.controllerManager)
	}
	for _, file := range files {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// build builds the programs that are not in the cache.
func (b binaries) build(ctx context.Context) error {
	stamp := "-s -w"
	version := strings.Split(strings.TrimPrefix(kubernetesVersion, "v"), ".")
	for name, value := range map[string]string{"gitVersion": kubernetesVersion, "gitMajor": version[0], "gitMinor": version[1]} {
		stamp += " -X k8s.io/component-base/version." + name + "=" + value
	}
	for _, p := range []struct{ module, program, file, flags string }{
		{"etcd", "go.etcd.io/etcd/server/v3", b.etcd, "-s -w"},
		{"kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", b.apiserver, stamp},
		{"kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", b.controllerManager, stamp},
	} {
		if _, err := os.Stat(p.file); err == nil {
			continue
		}
		fmt.Println("building", p.file)
		if err := os.MkdirAll(filepath.Dir(p.file), 0o755); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", p.flags, "-o", p.file+".new", p.program)
		cmd.Dir = p.module
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
		if err := os.Rename(p.file+".new", p.file); err != nil {
			return err
		}
	}
	return nil
}
