package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/snapshot"
)

// Report says what a data directory has.
type Report struct {
	Revision uint64 // of the latest write
	Records  int
	// Snapshot is the revision of the snapshot, zero if there is none.
	Snapshot uint64
	Logs     int // log files that are read
	// Torn is set if the log ends in a write that a crash has cut short. It was not acknowledged, and the
	// next Open removes it.
	Torn bool
	// Damage is what Repair found, nil from Check.
	Damage []error
}

// damagedSuffix is what Repair appends to the names of files.
const damagedSuffix = ".damaged"

// Check reads a data directory without an open store, and changes nothing. The directory may be read-only. With an error,
// the report says what could be read.
//
// Possible errors: the errors of [Open].
func Check(dir string) (Report, error) {
	var report Report
	err := withDirectory(dir, true, func(fs files, names []string, format error) error {
		loader := memory.NewLoader(memory.Options{})
		c, err := load(fs, names, loader)
		report = c.report(loader)
		return errors.Join(format, describe(dir, err), loader.Close())
	})
	return report, err
}

// ReadLog reads the log files of a data directory without an open store, and gives r what they have, the writes that a
// snapshot has too included. It changes nothing.
//
// Possible errors: the errors of [Open], the errors of r.
func ReadLog(dir string, r LogReader) error {
	return withDirectory(dir, true, func(fs files, names []string, format error) error {
		logs := logNames(names)
		err := format
		for i := 0; i < len(logs) && err == nil; i++ {
			_, err = readLog(fs, logs[i], i+1 == len(logs), r)
		}
		return describe(dir, err)
	})
}

// report describes what a loader has.
func (c *contents) report(loader *memory.Loader) Report {
	r := Report{Revision: c.revision, Records: loader.Len(), Snapshot: c.snapshot, Logs: len(c.logs)}
	r.Torn = len(c.logs) > 0 && c.logs[len(c.logs)-1].torn > 0
	return r
}

// withDirectory calls f with the files of a data directory while it is locked, and with the damage of the format file, or
// nil. The errors of f have the directory. A directory that is only read and has no lock file is not locked: no store has
// been opened in it, or it is a copy.
func withDirectory(dir string, readOnly bool, f func(fs files, names []string, format error) error) error {
	dir, err := absolute(dir)
	if err != nil {
		return err
	}
	fs := osFiles{dir, readOnly}
	names, err := fs.List()
	if err != nil {
		return err
	}
	if !slices.Contains(names, formatFile) && !hasRecords(names) {
		return fmt.Errorf("%s is not a data directory: it has no file %s", dir, formatFile)
	}
	format := describe(dir, checkFormat(fs))
	if _, damaged := errors.AsType[*DamageError](format); format != nil && !damaged {
		return format
	}
	open := openLock
	if readOnly {
		open = openLockReadOnly
	}
	locked, err := open(filepath.Join(dir, lockFile))
	if err != nil && !(readOnly && errors.Is(err, os.ErrNotExist)) {
		return describe(dir, err)
	}
	if locked != nil {
		defer locked.Close()
	}
	return f(fs, names, format)
}

// Repair makes a damaged data directory one that Open accepts. It keeps every record of the snapshot that
// is intact, and the writes of the log up to the first that is not, and writes them as a new snapshot at a later
// revision; see [snapshot.Next]. The other files are renamed: their names get the suffix ".damaged". A
// directory without damage is not changed.
func Repair(dir string) (Report, error) {
	var report Report
	err := withDirectory(dir, false, func(fs files, names []string, format error) error {
		var err error
		report, err = repair(fs, names)
		if err == nil && format != nil {
			report.Damage = append(report.Damage, format)
			err = repairFormat(fs, names)
		}
		return describe(dir, err)
	})
	return report, err
}

// repairFormat writes the format file again.
func repairFormat(fs files, names []string) error {
	if slices.Contains(names, formatFile) {
		if err := fs.Rename(formatFile, formatFile+damagedSuffix); err != nil {
			return err
		}
	}
	return writeFormat(fs, nil)
}

func repair(fs files, names []string) (Report, error) {
	loader := memory.NewLoader(memory.Options{})
	c, damage := salvage(fs, names, loader)
	report := c.report(loader)
	report.Damage = damage
	store := loader.Store()
	defer store.Close()
	if len(damage) == 0 {
		return report, nil
	}
	page, err := store.Range(context.Background(), storage.Query{})
	if err != nil {
		return report, err
	}
	report.Snapshot, report.Logs = snapshot.Next(c.revision), 0
	report.Revision = report.Snapshot
	if _, err := writeSnapshot(fs, snapshot.Header{Revision: report.Snapshot, Taken: time.Now()}, page.Records, func() bool { return false }); err != nil {
		return report, err
	}
	for _, name := range slices.Concat(withPrefix(names, snapshotPrefix), logNames(names)) {
		if err := fs.Rename(name, name+damagedSuffix); err != nil {
			return report, err
		}
	}
	return report, fs.Sync()
}

// salvage gives a loader the intact records, and returns the damage.
func salvage(fs files, names []string, loader *memory.Loader) (*contents, []error) {
	c := &contents{revision: storage.First}
	var damage []error
	if snapshots := withPrefix(names, snapshotPrefix); len(snapshots) > 0 {
		name := snapshots[len(snapshots)-1]
		lost := salvageSnapshot(fs, name, loader.Record)
		if lost != nil {
			damage = append(damage, lost)
		}
		c.snapshot, _ = fileRevision(snapshotPrefix, name)
		c.revision = c.snapshot
		loader.At(c.snapshot)
	}
	logs := logNames(names)
	for i, name := range logs {
		if i+1 < len(logs) && c.covers(logs[i+1]) {
			continue
		}
		l, err := readLog(fs, name, i+1 == len(logs), c.apply(loader))
		if first, _ := fileRevision(logPrefix, name); err == nil && first > c.revision+1 {
			err = c.gap(name, first)
		}
		if err != nil {
			for _, later := range logs[i+1:] {
				err = errors.Join(err, fmt.Errorf("%s follows and is left out", later))
			}
			return c, append(damage, err)
		}
		c.logs = append(c.logs, l)
	}
	return c, damage
}

// salvageSnapshot calls f with the records of each frame of a snapshot that is intact, and returns an error if
// one is not.
func salvageSnapshot(fs files, name string, f func(storage.Record, []byte)) error {
	if _, _, err := readSnapshot(fs, name, func(storage.Record, []byte) {}); err == nil {
		_, _, err := readSnapshot(fs, name, f)
		return err
	} else if data, failed := readAll(fs, name); failed != nil {
		return failed
	} else {
		snapshot.Salvage(data, f)
		return err
	}
}

// Write writes the report for people.
func (r Report) Write(w io.Writer) {
	fmt.Fprintf(w, "%d records at revision %d", r.Records, r.Revision)
	if r.Snapshot != 0 {
		fmt.Fprintf(w, ", snapshot at revision %d", r.Snapshot)
	}
	files := "log files"
	if r.Logs == 1 {
		files = "log file"
	}
	fmt.Fprintf(w, ", %d %s\n", r.Logs, files)
	if r.Torn {
		fmt.Fprintln(w, "the log ends in a write that was cut short and never acknowledged; the next start removes it")
	}
}
