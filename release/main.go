// Command release builds what a release of the command flyball consists of, into a folder: an archive for each
// platform, the checksums, a software bill of materials (SBOM) for each archive, and a container image.
//
//	go run -C release . -snapshot
//
// is the dry run: it builds any commit. Without the flag, the commit must have a tag of a version, and no file may
// differ from it. With -push, the image is pushed to a registry, with the credentials of docker login.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// platforms are the platforms of a release.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	var o options
	flag.StringVar(&o.source, "source", "..", "the folder of the module")
	flag.StringVar(&o.pkg, "package", "./cmd/flyball", "the main package")
	flag.StringVar(&o.output, "output", "../dist", "the folder to write to; a release in it is replaced")
	flag.StringVar(&o.push, "push", "", "the repository to push the image to, such as ghcr.io/example/flyball; by default it is written only")
	flag.BoolVar(&o.snapshot, "snapshot", false, "build a commit without a tag, or with changes")
	list := flag.String("platforms", platforms, "the platforms to build for")
	flag.Parse()
	o.platforms = strings.Split(*list, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := release(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options are the values of the flags.
type options struct {
	source, pkg, output, push string
	snapshot                  bool
	platforms                 []string
}

// release builds everything.
func release(ctx context.Context, o options) (err error) {
	if o.snapshot && o.push != "" {
		return errors.New("a snapshot is not pushed: -snapshot and -push exclude each other")
	}
	if err := clear(o.output); err != nil {
		return err
	}
	if err := os.MkdirAll(o.output, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil { // nothing of a release is better than a part of one
			err = errors.Join(err, os.RemoveAll(o.output))
		}
	}()
	var programs []*program
	for _, platform := range o.platforms {
		start := time.Now()
		p, err := build(ctx, o, platform)
		if err != nil {
			return err
		}
		if !o.snapshot && !p.released() {
			return fmt.Errorf("the version is %s: check a tag out, without changes, or build a -snapshot", p.version())
		}
		files, err := p.pack(o.output)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		programs = append(programs, p)
		fmt.Printf("%s (%s)\n", strings.Join(files, " "), time.Since(start).Round(time.Second))
	}
	index, err := image(programs)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := writeImage(ctx, index, filepath.Join(o.output, "image"), o.push, programs[0].version()); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	for _, p := range programs {
		if err := os.RemoveAll(filepath.Dir(p.file)); err != nil {
			return err
		}
	}
	return checksums(o.output)
}

// clear removes a folder with a release, and returns an error if it has anything else.
func clear(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == checksumsFile }) {
		return fmt.Errorf("%s has no release, and is not removed: choose an empty folder as -output", folder)
	}
	return os.RemoveAll(folder)
}
