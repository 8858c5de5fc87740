// Package watch reports changes of files in a directory tree.
package watch

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// quiet is how long no file may change before changes are reported. Editors write, rename and format a file in several
// steps.
const quiet = 60 * time.Millisecond

// Watcher watches the files below a directory. It ignores hidden directories, directories that the go command ignores,
// and directories of binaries and of packages of other languages.
type Watcher struct {
	watcher *fsnotify.Watcher
	matters func(path string) bool

	mu       sync.Mutex
	included map[string]bool
}

// New returns a Watcher for the files below a directory for which matters returns true. The caller must call Close.
func New(dir string, matters func(path string) bool) (*Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &Watcher{watcher: watcher, matters: matters}
	if dir, err = filepath.Abs(dir); err == nil {
		// If the directory is a symbolic link, fsnotify follows it, and the paths stay below the link.
		_, err = w.add(dir + string(filepath.Separator) + ".")
	}
	if err != nil {
		return nil, errors.Join(err, watcher.Close())
	}
	return w, nil
}

// Include adds files to watch, even in ignored directories. It may be called during Next.
func (w *Watcher) Include(files []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, file := range files {
		if w.included[file] {
			continue
		}
		if err := w.watcher.Add(filepath.Dir(file)); err != nil { // once, if it is watched already
			return err
		}
		if w.included == nil {
			w.included = map[string]bool{}
		}
		w.included[file] = true
	}
	return nil
}

// Close stops watching.
func (w *Watcher) Close() error { return w.watcher.Close() }

// add watches a directory and its subdirectories, and returns the relevant files.
func (w *Watcher) add(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it has gone since
		case err != nil:
			return err
		case entry.IsDir() && path != dir && ignored(entry.Name()):
			return fs.SkipDir
		case entry.IsDir():
			return w.watcher.Add(path)
		case w.relevant(path):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// ignored reports whether a Watcher ignores directories of this name.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
		slices.Contains([]string{"bin", "node_modules", "testdata", "vendor"}, name)
}

func (w *Watcher) relevant(path string) bool {
	w.mu.Lock()
	included := w.included[path]
	w.mu.Unlock()
	return included || !strings.HasPrefix(filepath.Base(path), ".") && w.matters(path)
}

// Change describes a set of changes.
type Change struct {
	// Paths are absolute and sorted. An empty path means that events were lost.
	Paths []string
	// At is when the first change was noticed.
	At time.Time
}

// Next waits until relevant files have changed and no file changes for a moment. Changes between two calls are not
// lost. Next returns the error of ctx, or an error if watching is no longer possible.
func (w *Watcher) Next(ctx context.Context) (Change, error) {
	changed := map[string]bool{}
	var at time.Time
	var timer <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return Change{}, ctx.Err()
		case <-timer:
			return Change{Paths: slices.Sorted(maps.Keys(changed)), At: at}, nil
		case event, ok := <-w.watcher.Events:
			if !ok {
				return Change{}, fsnotify.ErrClosed
			}
			before := len(changed)
			if err := w.note(event, changed); err != nil {
				return Change{}, err
			}
			if before == 0 && len(changed) > 0 {
				at = time.Now()
			}
			if len(changed) > before || timer != nil {
				timer = time.After(quiet)
			}
		case err := <-w.watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return Change{}, err
			}
			if len(changed) == 0 {
				at = time.Now()
			}
			changed[""] = true // anything may have changed
			timer = time.After(quiet)
		}
	}
}

// note adds the relevant files of an event.
func (w *Watcher) note(event fsnotify.Event, changed map[string]bool) error {
	if event.Op == fsnotify.Chmod {
		return nil
	}
	if event.Has(fsnotify.Create) {
		if info, err := os.Stat(event.Name); err == nil && info.IsDir() {
			if ignored(info.Name()) {
				return nil
			}
			files, err := w.add(event.Name)
			for _, file := range files {
				changed[file] = true
			}
			return err
		}
	}
	if w.relevant(event.Name) {
		changed[event.Name] = true
	}
	return nil
}
