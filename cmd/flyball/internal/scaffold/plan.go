package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"flyball.dev/cmd/flyball/internal/filetx"
)

// plan collects the changes of a command. Nothing is written before commit.
type plan struct {
	folder string
	files  []*file
	// canForce is set if the command has the flag --force.
	canForce bool
}

// file is a file of a plan. Its path is relative to the folder, with slashes.
type file struct {
	path    string
	content []byte
	before  []byte // nil if it does not exist
	kept    bool   // by keep: only restored, not written
	removed bool
}

// find returns the file with a path in the plan, or nil.
func (p *plan) find(path string) *file {
	i := slices.IndexFunc(p.files, func(f *file) bool { return f.path == path })
	if i < 0 {
		return nil
	}
	return p.files[i]
}

// load adds a file to the plan, with its current content.
func (p *plan) load(path string) (*file, error) {
	if f := p.find(path); f != nil {
		return f, nil
	}
	f := &file{path: path}
	name := filepath.Join(p.folder, filepath.FromSlash(path))
	content, err := os.ReadFile(name)
	switch {
	case err == nil:
		f.before = append([]byte{}, content...)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f.content = f.before
	p.files = append(p.files, f)
	return f, nil
}

// exists reports whether a file exists now or in the plan.
func (p *plan) exists(path string) bool {
	if f := p.find(path); f != nil {
		return f.content != nil
	}
	_, err := os.Stat(filepath.Join(p.folder, filepath.FromSlash(path)))
	return err == nil
}

// create adds a new file. It fails if the file exists, unless force is set.
func (p *plan) create(path string, content []byte, force bool) error {
	f, err := p.load(path)
	if err != nil {
		return err
	}
	if f.content != nil && !force {
		if !p.canForce {
			return fmt.Errorf("%s exists already: move it away, or make the project in another folder", path)
		}
		return fmt.Errorf("%s exists already: move it away, or use --force to overwrite it", path)
	}
	f.content = content
	return nil
}

// edit changes the content of an existing file. change gets the content with Unix line endings; the file keeps its own
// line endings.
func (p *plan) edit(path string, change func([]byte) ([]byte, error)) error {
	f, err := p.load(path)
	if err != nil {
		return err
	}
	if f.content == nil {
		return fmt.Errorf("%s does not exist: restore it, it is part of the project", path)
	}
	content, err := change(unixLines(f.content))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if bytes.Contains(f.content, []byte("\r\n")) {
		content = bytes.ReplaceAll(content, []byte("\n"), []byte("\r\n"))
	}
	f.content = content
	return nil
}

// unixLines converts a text to Unix line endings. git may have checked it out with others.
func unixLines(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) }

// keep adds files that a program changes after the commit, so that they can be restored.
func (p *plan) keep(paths ...string) error {
	for _, path := range paths {
		if p.find(path) != nil {
			continue
		}
		f, err := p.load(path)
		if err != nil {
			return err
		}
		f.kept = true
	}
	return nil
}

// remove removes a file that exists.
func (p *plan) remove(path string) error {
	f, err := p.load(path)
	if err != nil {
		return err
	}
	f.content, f.removed = nil, true
	return nil
}

// commit writes the files, and then calls the functions. If one of these steps fails, commit restores everything.
func (p *plan) commit(then ...func() error) error {
	var changes []filetx.Change
	for _, f := range p.files {
		c := filetx.Change{Path: filepath.Join(p.folder, filepath.FromSlash(f.path)), Content: f.content, Remove: f.removed, Keep: f.kept}
		if f.kept || f.removed || f.content != nil && (f.before == nil || !bytes.Equal(f.content, f.before)) {
			changes = append(changes, c)
		}
	}
	return filetx.Commit(changes, then...)
}

// changes returns the paths of the created and changed files.
func (p *plan) changes() *Changes {
	c := &Changes{}
	for _, f := range p.files {
		switch {
		case f.kept || bytes.Equal(f.content, f.before) && f.before != nil:
		case f.removed:
			c.Removed = append(c.Removed, f.path)
		case f.before == nil:
			c.Created = append(c.Created, f.path)
		default:
			c.Updated = append(c.Updated, f.path)
		}
	}
	slices.Sort(c.Created)
	slices.Sort(c.Updated)
	slices.Sort(c.Removed)
	return c
}

// Changes lists the changes of a command. Paths are relative to the project, with slashes.
type Changes struct {
	Created, Updated, Removed []string
	// Notes are for the user.
	Notes []string
}

// note adds a note.
func (c *Changes) note(format string, args ...any) {
	c.Notes = append(c.Notes, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
