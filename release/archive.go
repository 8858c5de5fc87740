package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// pack writes the archive of a program and its SBOM into a folder, and returns their names.
func (p *program) pack(folder string) ([]string, error) {
	content, err := os.ReadFile(p.file)
	if err != nil {
		return nil, err
	}
	extension, write := ".tar.gz", p.writeTar
	if p.os == "windows" {
		extension, write = ".zip", p.writeZip
	}
	archive, sbom := p.base()+extension, p.base()+".cdx.json"
	err = errors.Join(
		create(filepath.Join(folder, archive), func(w io.Writer) error { return write(w, content) }),
		create(filepath.Join(folder, sbom), p.writeSBOM))
	return []string{archive, sbom}, err
}

// create writes a file.
func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func (p *program) writeTar(w io.Writer, content []byte) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	err := archive.WriteHeader(&tar.Header{Name: p.name, Mode: 0o755, Size: int64(len(content)), ModTime: p.time})
	if err == nil {
		_, err = archive.Write(content)
	}
	return errors.Join(err, archive.Close(), compressed.Close())
}

func (p *program) writeZip(w io.Writer, content []byte) error {
	archive := zip.NewWriter(w)
	f, err := archive.CreateHeader(&zip.FileHeader{Name: p.name, Method: zip.Deflate, Modified: p.time})
	if err == nil {
		_, err = f.Write(content)
	}
	return errors.Join(err, archive.Close())
}

// checksumsFile is the file with the checksums of a release.
const checksumsFile = "checksums.txt"

// checksums writes the SHA-256 sums of all files of a folder, as sha256sum does.
func checksums(folder string) error {
	entries, err := os.ReadDir(folder) // sorted
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(folder, checksumsFile), []byte(sums.String()), 0o644)
}
