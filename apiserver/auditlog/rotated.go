package auditlog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// backupTime is the format of the time in the name of a rotated file, as in kube-apiserver.
const backupTime = "2006-01-02T15-04-05.000"

// rotated is a file that is renamed before it would exceed a size. The data of one Write goes to one file. rotated has
// no goroutine and is safe for concurrent use.
type rotated struct {
	path               string
	maxSize            int64 // in bytes; zero means no limit
	maxAge, maxBackups int   // in days; zero means no limit
	mu                 sync.Mutex
	file               *os.File
	size               int64
	permanent          bool // a device or a pipe, which is never renamed
}

// openRotated opens a file for appending. It creates the file and its directory if necessary.
func openRotated(path string, maxSize int64, maxAge, maxBackups int) (*rotated, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	r := &rotated{path: path, maxSize: maxSize, maxAge: maxAge, maxBackups: maxBackups}
	return r, r.open()
}

func (r *rotated) open() error {
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	r.file, r.size, r.permanent = file, info.Size(), !info.Mode().IsRegular()
	return nil
}

// Write implements [io.Writer].
func (r *rotated) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.permanent && r.maxSize > 0 && r.size > 0 && r.size+int64(len(b)) > r.maxSize {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := r.file.Write(b)
	r.size += int64(n)
	return n, err
}

// rotate renames the file, opens a new one, and removes rotated files that are too old or too many. If it fails, the
// current file stays open.
func (r *rotated) rotate() error {
	prefix, suffix := r.backupName()
	backup := prefix + time.Now().UTC().Format(backupTime) + suffix
	if err := os.Rename(r.path, filepath.Join(filepath.Dir(r.path), backup)); err != nil {
		return err
	}
	old := r.file
	if err := r.open(); err != nil {
		return err
	}
	old.Close()
	return r.prune(time.Now())
}

// backupName returns the prefix and the suffix of the time in the name of a rotated file.
func (r *rotated) backupName() (prefix, suffix string) {
	suffix = filepath.Ext(r.path)
	return strings.TrimSuffix(filepath.Base(r.path), suffix) + "-", suffix
}

// prune removes the rotated files that are too old or too many.
func (r *rotated) prune(now time.Time) error {
	directory := filepath.Dir(r.path)
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	prefix, suffix := r.backupName()
	times := map[string]time.Time{}
	var backups []string
	for _, e := range entries {
		text, prefixed := strings.CutPrefix(e.Name(), prefix)
		text, suffixed := strings.CutSuffix(text, suffix)
		if !prefixed || !suffixed {
			continue
		}
		if t, err := time.Parse(backupTime, text); err == nil {
			times[e.Name()] = t
			backups = append(backups, e.Name())
		}
	}
	slices.SortFunc(backups, func(a, b string) int { return times[b].Compare(times[a]) })
	for i, name := range backups {
		tooOld := r.maxAge > 0 && now.Sub(times[name]) > time.Duration(r.maxAge)*24*time.Hour
		if tooOld || r.maxBackups > 0 && i >= r.maxBackups {
			if err := os.Remove(filepath.Join(directory, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close implements [io.Closer].
func (r *rotated) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}
