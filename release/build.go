package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// program is a binary for one platform.
type program struct {
	name, os, arch string
	file           string
	info           *buildinfo.BuildInfo
	time           time.Time // of the commit, and of all files in archives and images
}

// build builds a program, static and without debug information, so that the same commit gives the same bytes. With cgo, the
// linker would keep all methods for plugins, since kustomize imports package plugin.
func build(ctx context.Context, o options, platform string) (*program, error) {
	goos, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("the platform %q is not OS/ARCHITECTURE", platform)
	}
	output, err := filepath.Abs(o.output)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(o.pkg)
	if goos == "windows" {
		name += ".exe"
	}
	p := &program{name: name, os: goos, arch: arch, file: filepath.Join(output, goos+"_"+arch, name)}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", p.file, o.pkg)
	cmd.Dir = o.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build for %s: %w\n%s", platform, err, out)
	}
	if p.info, err = buildinfo.ReadFile(p.file); err != nil {
		return nil, err
	}
	p.time, err = time.Parse(time.RFC3339, p.setting("vcs.time"))
	if err != nil {
		return nil, fmt.Errorf("the source is not in a git repository: %w", err)
	}
	return p, nil
}

// setting returns a setting of the build.
func (p *program) setting(key string) string {
	for _, s := range p.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// version returns the version that the go command has derived from the tags.
func (p *program) version() string { return p.info.Main.Version }

// released reports whether the commit has a tag of a version, and nothing differs from it.
func (p *program) released() bool {
	v := p.version()
	return semver.IsValid(v) && semver.Build(v) == "" && !module.IsPseudoVersion(v)
}

// base is the name of an archive without its extension.
func (p *program) base() string {
	return fmt.Sprintf("%s_%s_%s_%s", strings.TrimSuffix(p.name, ".exe"), strings.TrimPrefix(p.version(), "v"), p.os, p.arch)
}
