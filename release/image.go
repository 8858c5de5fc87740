package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/mod/semver"
)

const (
	// nobody is the user and group of the image's process.
	nobody = 65532
	// home is the working directory, which that user can write to.
	home = "home"
)

// image returns the image of the programs for Linux, with a manifest for each architecture. It consists of the
// static binary alone: there is no shell.
func image(programs []*program) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		if p.os != "linux" {
			continue
		}
		content, err := p.rootFilesystem()
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
		if err != nil {
			return nil, err
		}
		platform := v1.Platform{OS: p.os, Architecture: p.arch}
		img, err = mutate.ConfigFile(img, p.config(img, platform))
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}

// config returns the configuration of an image with the program.
func (p *program) config(img v1.Image, platform v1.Platform) *v1.ConfigFile {
	file, err := img.ConfigFile()
	if err != nil { // of an image in memory
		panic(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = platform.OS, platform.Architecture, v1.Time{Time: p.time}
	file.Config = v1.Config{
		Entrypoint: []string{"/" + p.name}, Cmd: []string{"--help"}, User: "65532:65532", WorkingDir: "/" + home,
		Labels: map[string]string{
			"org.opencontainers.image.title":    p.name,
			"org.opencontainers.image.version":  p.version(),
			"org.opencontainers.image.revision": p.setting("vcs.revision"),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return file
}

// rootFilesystem returns the layer of an image as a tar archive.
func (p *program) rootFilesystem() ([]byte, error) {
	content, err := os.ReadFile(p.file)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, f := range []struct {
		header  tar.Header
		content []byte
	}{
		{tar.Header{Name: p.name, Mode: 0o755, Size: int64(len(content)), ModTime: p.time}, content},
		{tar.Header{Typeflag: tar.TypeDir, Name: home + "/", Mode: 0o755, Uid: nobody, Gid: nobody, ModTime: p.time}, nil},
		{tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: p.time}, nil},
	} {
		if err := archive.WriteHeader(&f.header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), archive.Close()
}

// writeImage writes an image as an OCI image layout into a folder, and pushes it to a repository unless that is "".
func writeImage(ctx context.Context, index v1.ImageIndex, folder, repository, version string) error {
	if _, err := layout.Write(folder, index); err != nil {
		return err
	}
	if repository == "" {
		return nil
	}
	tags := []string{version}
	if semver.Prerelease(version) == "" {
		tags = append(tags, "latest")
	}
	var errs []error
	for _, tag := range tags {
		ref, err := name.ParseReference(repository + ":" + tag)
		if err != nil {
			return err
		}
		errs = append(errs, remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)))
	}
	return errors.Join(errs...)
}
