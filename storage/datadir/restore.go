package datadir

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/snapshot"
)

// ErrNotEmpty means that the directory has the records of another store.
var ErrNotEmpty = errors.New("the data directory is not empty")

// Restore makes a data directory with the records of a snapshot file, at a later revision; see [snapshot.Next]. It changes
// nothing if the snapshot is damaged. With replace, the records replace those that the directory has, durably: after a
// crash, the directory has either.
//
// Possible errors: ErrNotEmpty, the errors of [snapshot.Read] and [Open].
func Restore(dir, file string, replace bool) (Report, error) {
	dir, err := absolute(dir)
	if err != nil {
		return Report{}, err
	}
	from, err := snapshot.Open(file)
	if err != nil {
		return Report{}, err
	}
	defer from.Close()
	loader := memory.NewLoader(memory.Options{})
	header, err := snapshot.Read(from, loader.Record)
	if err != nil {
		return Report{}, errors.Join(snapshot.Describe(file, err), loader.Close())
	}
	loader.At(header.Revision)
	records := loader.Records()
	if err := loader.Close(); err != nil {
		return Report{}, err
	}
	locked, err := openDirectory(dir)
	if err != nil {
		return Report{}, err
	}
	defer locked.Close()
	report, err := restore(osFiles{dir: dir}, header.Revision, records, replace)
	if err != nil {
		return report, describe(dir, err)
	}
	return report, nil
}

// restore writes records to a directory that is locked. The new snapshot hides all other files, which are removed
// afterwards.
func restore(fs files, revision uint64, records []*storage.Record, replace bool) (Report, error) {
	names, err := fs.List()
	if err != nil {
		return Report{}, err
	}
	old := slices.Concat(withPrefix(names, snapshotPrefix), logNames(names))
	if len(old) > 0 && !replace {
		return Report{}, ErrNotEmpty
	}
	if err := writeFormat(fs, names); err != nil {
		return Report{}, err
	}
	if len(old) > 0 {
		loader := memory.NewLoader(memory.Options{})
		c, _ := salvage(fs, names, loader) // of a damaged directory, the intact part says how far it went
		revision = max(revision, c.revision)
		if err := loader.Close(); err != nil {
			return Report{}, err
		}
	}
	revision = snapshot.Next(revision)
	if _, err := writeSnapshot(fs, snapshot.Header{Revision: revision, Taken: time.Now()}, records, func() bool { return false }); err != nil {
		return Report{}, err
	}
	for _, name := range old {
		if err := fs.Remove(name); err != nil {
			return Report{}, fmt.Errorf("the records are restored, and %s is left: %w", name, err)
		}
	}
	return Report{Revision: revision, Records: len(records), Snapshot: revision}, fs.Sync()
}
