package datadir

import (
	"errors"
	"fmt"

	"flyball.dev/storage"
)

const (
	// frameOfRecords is about how many bytes of records a frame of a snapshot has.
	frameOfRecords = 256 << 10
	// syncEvery is how many bytes of a snapshot are written before they are made durable, so that the log
	// never waits for many of them.
	syncEvery = 8 << 20
)

// writeSnapshot writes records as a snapshot of a revision, and returns its size. It stops when stop
// returns true.
func writeSnapshot(fs files, revision uint64, records []*storage.Record, stop func() bool) (int64, error) {
	var size int64
	f, err := replace(fs, fileName(snapshotPrefix, revision), 0, func(f file) error {
		w := snapshotWriter{file: f}
		w.frame(func(buf []byte) []byte { return appendHead(buf, kindSnapshot, format, revision, 0) })
		for rest := records; len(rest) > 0 && w.err == nil; {
			if stop() {
				return storage.ErrClosed
			}
			n := 0
			w.frame(func(buf []byte) []byte {
				start := len(buf)
				for buf = append(buf, kindRecords); n < len(rest) && len(buf)-start < frameOfRecords; n++ {
					buf = appendRecord(buf, rest[n])
				}
				return buf
			})
			rest = rest[n:]
		}
		w.frame(func(buf []byte) []byte { return appendHead(buf, kindEnd, uint64(len(records))) })
		size = w.position
		return w.err
	})
	if err != nil {
		return 0, err
	}
	return size, f.Close()
}

// snapshotWriter writes frames one after the other.
type snapshotWriter struct {
	file             file
	position, synced int64
	buf              []byte
	err              error
}

func (w *snapshotWriter) frame(payload func([]byte) []byte) {
	if w.err != nil {
		return
	}
	w.buf = appendFrame(w.buf[:0], w.position, payload)
	for len(w.buf)%headerSize != 0 {
		w.buf = append(w.buf, 0)
	}
	if _, w.err = w.file.WriteAt(w.buf, w.position); w.err != nil {
		return
	}
	w.position += int64(len(w.buf))
	if w.position-w.synced >= syncEvery {
		w.synced, w.err = w.position, w.file.Sync()
	}
}

// readSnapshot reads a snapshot and calls f with each record and its value. It returns the revision and the size of the
// file.
func readSnapshot(fs files, name string, f func(storage.Record, []byte)) (revision uint64, size int64, err error) {
	data, err := readAll(fs, name)
	if err != nil {
		return 0, 0, err
	}
	revision, position, err := readRecords(data, f)
	if named, _ := fileRevision(snapshotPrefix, name); err == nil && named != revision {
		err = fmt.Errorf("it has revision %d", revision)
	}
	if err != nil {
		return 0, 0, &DamageError{File: name, Position: position, Err: err}
	}
	return revision, int64(len(data)), nil
}

var errLength = errors.New("it does not end where it should")

// readRecords reads the content of a snapshot. With an error it returns the position of the frame that is
// wrong.
func readRecords(data []byte, f func(storage.Record, []byte)) (revision uint64, position int64, err error) {
	payload, next, err := frameAt(data, 0)
	if err != nil {
		return 0, 0, err
	}
	if revision, _, err = (&decoder{data: payload}).head(kindSnapshot); err != nil {
		return 0, 0, err
	}
	for n := uint64(0); ; {
		position = next
		if payload, next, err = frameAt(data, position); err != nil {
			return 0, position, err
		}
		d := &decoder{data: payload}
		switch d.byte() {
		case kindRecords:
			n += d.records(f)
		case kindEnd:
			if count := d.uint(); d.err == nil && (count != n || len(d.data) > 0) {
				return 0, position, fmt.Errorf("it has %d records of %d", n, count)
			}
			if d.err == nil && next != int64(len(data)) {
				return 0, position, errLength
			}
			return revision, position, d.err
		default:
			d.fail()
		}
		if d.err != nil {
			return 0, position, d.err
		}
	}
}

// records reads the rest of a frame of records, calls f with each, and returns how many there are.
func (d *decoder) records(f func(storage.Record, []byte)) (n uint64) {
	for ; d.err == nil && len(d.data) > 0; n++ {
		r := storage.Record{Key: string(d.bytes()), Created: d.uint(), Revision: d.uint(), Version: d.uint(), Expires: d.time()}
		value := append([]byte(nil), d.bytes()...)
		if d.err == nil {
			f(r, value)
		}
	}
	return n
}
