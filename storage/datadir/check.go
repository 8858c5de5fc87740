package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

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

// Check reads a data directory without an open store, and changes nothing. With an error, the report
// says what could be read.
//
// Possible errors: the errors of [Open].
func Check(dir string) (Report, error) {
	var report Report
	err := withDirectory(dir, func(fs files, names []string) error {
		loader := memory.NewLoader(memory.Options{})
		c, err := load(fs, names, loader)
		report = c.report(loader)
		return errors.Join(err, loader.Close())
	})
	return report, err
}

// report describes what a loader has.
func (c *contents) report(loader *memory.Loader) Report {
	r := Report{Revision: c.revision, Records: loader.Len(), Snapshot: c.snapshot, Logs: len(c.logs)}
	r.Torn = len(c.logs) > 0 && c.logs[len(c.logs)-1].torn > 0
	return r
}

// withDirectory calls f with the files of a data directory while it is locked.
func withDirectory(dir string, f func(fs files, names []string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	fs := osFiles{dir}
	names, err := fs.List()
	if err != nil {
		return err
	}
	if !slices.Contains(names, formatFile) {
		return fmt.Errorf("%s is not a data directory: it has no file %s", dir, formatFile)
	}
	locked, err := openDirectory(dir)
	if err != nil {
		return err
	}
	defer locked.Close()
	if err := f(fs, names); err != nil {
		return describe(dir, err)
	}
	return nil
}

// Repair makes a damaged data directory one that Open accepts. It keeps every record of the snapshot that
// is intact, and the writes of the log up to the first that is not, and writes them as a new snapshot at a later
// revision; see [snapshot.Next]. The other files are renamed: their names get the suffix ".damaged". A
// directory without damage is not changed.
func Repair(dir string) (Report, error) {
	var report Report
	err := withDirectory(dir, func(fs files, names []string) error {
		var err error
		report, err = repair(fs, names)
		return err
	})
	return report, err
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
	if _, err := writeSnapshot(fs, report.Snapshot, page.Records, func() bool { return false }); err != nil {
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
	fmt.Fprintf(w, ", %d log files\n", r.Logs)
	if r.Torn {
		fmt.Fprintln(w, "the log ends in a write that was cut short and never acknowledged; the next start removes it")
	}
}
