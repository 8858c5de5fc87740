package dev

import (
	"path/filepath"
	"slices"
	"testing"

	"flyball.dev/cmd/flyball/internal/testproject"
)

// TestEmbedded checks that files named by go:embed are known, even if they do not exist yet.
func TestEmbedded(t *testing.T) {
	testproject.Extract(t, `
-- go.mod --
module example.com/p
-- cmd/main.go --
package main

import "embed"

//go:embed all:web testdata/*.sql missing
var files embed.FS

func main() {}
-- cmd/web/deep/.hidden --
-- cmd/testdata/a.sql --
-- cmd/testdata/a.txt --
-- web/b --
`)
	wd, err := filepath.Abs("cmd")
	if err != nil {
		t.Fatal(err)
	}
	var e embedded
	if _, err := e.update(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"web/deep/.hidden": true, "web/new/file": true, "testdata/a.sql": true, "testdata/new.sql": true,
		"testdata/a.txt": false, "testdata/deep/a.sql": false, "missing": true, "../web/b": false, "main.go": false} {
		if got := e.contains(filepath.Join(wd, path)); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	testproject.Extract(t, `
-- go.mod --
module example.com/p
-- main.go --
package main

import _ "embed"

//go:embed testdata/a
var a string
-- testdata/a --
`)
	file, err := filepath.Abs("testdata/a")
	if err != nil {
		t.Fatal(err)
	}
	if files, err := e.update(t.Context()); err != nil || !slices.Equal(files, []string{file}) {
		t.Errorf("%q, %v", files, err)
	}
}
