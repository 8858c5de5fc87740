package datadir

import (
	"errors"
	"fmt"
	"io"

	"flyball.dev/storage"
	"flyball.dev/storage/snapshot"
)

// syncEvery is how many bytes of a snapshot are written before they are made durable, so that the log never waits for
// many of them.
const syncEvery = 8 << 20

// writeSnapshot writes records as a snapshot, and returns its size. It stops when stop returns true.
func writeSnapshot(fs files, h snapshot.Header, records []*storage.Record, stop func() bool) (int64, error) {
	var size int64
	f, err := replace(fs, fileName(snapshotPrefix, h.Revision), 0, func(f file) error {
		w := snapshotWriter{file: f, stop: stop}
		err := snapshot.Write(&w, h, records)
		size = w.position
		return err
	})
	if err != nil {
		return 0, err
	}
	return size, f.Close()
}

// snapshotWriter writes to a file from its beginning.
type snapshotWriter struct {
	file             file
	stop             func() bool
	position, synced int64
}

func (w *snapshotWriter) Write(p []byte) (int, error) {
	if w.stop() {
		return 0, storage.ErrClosed
	}
	n, err := w.file.WriteAt(p, w.position)
	if w.position += int64(n); err == nil && w.position-w.synced >= syncEvery {
		w.synced, err = w.position, w.file.Sync()
	}
	return n, err
}

// readSnapshot reads a snapshot and calls f with each record and its value. It returns the revision and the size of the
// file.
func readSnapshot(fs files, name string, f func(storage.Record, []byte)) (revision uint64, size int64, err error) {
	file, err := fs.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	if size, err = file.Size(); err != nil {
		return 0, 0, err
	}
	h, err := snapshot.Read(io.NewSectionReader(file, 0, size), f)
	if named, _ := fileRevision(snapshotPrefix, name); err == nil && named != h.Revision {
		err = fmt.Errorf("it has revision %d", h.Revision)
	}
	if err == nil {
		return h.Revision, size, nil
	}
	if damage, ok := errors.AsType[*DamageError](err); ok {
		damage.File = name
		return 0, 0, damage
	}
	return 0, 0, &DamageError{File: name, Err: err}
}
