package datadir

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/internal/frame"
	"flyball.dev/storage/memory"
)

const (
	logPrefix      = "log-"
	snapshotPrefix = "snapshot-"
)

// fileName returns the name of a file: of the log from a revision on, or of the snapshot of a revision.
func fileName(prefix string, revision uint64) string { return fmt.Sprintf("%s%016x", prefix, revision) }

// fileRevision returns the revision in the name of a file with a prefix, and whether it is such a name.
func fileRevision(prefix, name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	revision, err := strconv.ParseUint(digits, 16, 64)
	return revision, err == nil && fileName(prefix, revision) == name
}

// journal appends batches to log files. It is the journal of a [memory.Store].
type journal struct {
	files files
	dir   string
	size  int64 // of a log file

	mu sync.Mutex
	// file is the log file that is appended to, at position, nil before the first write.
	file     file
	end      int64 // of the file
	position int64
	revision uint64 // of the latest write that is durable
	// written are bytes that a failed write may have left after position.
	written int64
	// broken is the error after which nobody knows which writes are durable, and failure the error of the last write.
	broken, failure error
	// leases has the time to live of each lease that is durable. A log file begins with all of them.
	leases map[int64]time.Duration
	// clock is the reading of the clock by which the records of the log expire, and before the one before. It changes when the
	// wall clock was set.
	clock, before clock
	now           func() time.Time
	// compacted is the revision of the latest compaction since the latest write, zero for none.
	compacted uint64
	// logged counts the bytes of all batches.
	logged int64
	buf    []byte
	// written is called after a batch is durable.
	appended func(logged int64)
}

// Write implements [memory.Journal].
func (j *journal) Write(b memory.Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.prepare(j.revision + 1); err != nil {
		return j.failed(err)
	}
	if err := j.append(b); err != nil {
		return j.failed(err)
	}
	j.failure = nil
	j.appended(j.logged)
	return nil
}

// failed remembers and returns the error of a write.
func (j *journal) failed(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w: %s: %w", storage.ErrNoSpace, j.dir, err)
	} else {
		err = fmt.Errorf("data directory %s: %w", j.dir, err)
	}
	j.failure = err
	return err
}

// prepare makes the file ready for the next write, which has a revision: it removes what a failed write may
// have left.
func (j *journal) prepare(revision uint64) error {
	switch {
	case j.broken != nil:
		return j.broken
	case j.file == nil:
		return j.rotate(revision, 0)
	case j.written > 0:
		if err := zero(j.file, j.position, j.written); err != nil {
			return err
		}
		if err := j.sync(); err != nil {
			return err
		}
		j.written = 0
	}
	return nil
}

// append writes a batch after position.
func (j *journal) append(b memory.Batch) error {
	now, set := j.clock, time.Duration(0)
	if reading := j.now(); len(b.Events) > 0 {
		if set = frame.ClockSet(now.reading, reading); set != 0 {
			now = clock{b.Events[0].Record.Revision, reading}
		}
	}
	write := func(buf []byte) []byte { return appendBatch(buf, b, now.reading, set) }
	j.buf = frame.Append(j.buf[:0], j.position, write)
	if j.position+int64(len(j.buf)) > j.end {
		if err := j.rotate(j.revision+1, int64(len(j.buf))); err != nil {
			return err
		}
		j.buf = frame.Append(j.buf[:0], j.position, write) // its position is part of it
	}
	j.written = int64(len(j.buf))
	if _, err := j.file.WriteAt(j.buf, j.position); err != nil {
		return err
	}
	if err := j.sync(); err != nil {
		return err
	}
	j.position = frame.Align(j.position + j.written)
	j.logged += j.written
	j.written = 0
	if set != 0 {
		j.clock, j.before = now, j.clock
	}
	if n := len(b.Events); n > 0 {
		j.revision, j.compacted = b.Events[n-1].Record.Revision, 0
	} else if b.Compacted > 0 {
		j.compacted = b.Compacted
	}
	for _, l := range b.Leases {
		if l.TTL > 0 {
			j.leases[l.ID] = l.TTL
		} else {
			delete(j.leases, l.ID)
		}
	}
	if cap(j.buf) > maxBuffer {
		j.buf = nil
	}
	return nil
}

// clock is a reading of the clock, by which the records from a revision on expire.
type clock struct {
	from    uint64
	reading time.Time
}

// time returns the present time by the clock of a revision, or false if the clock was set too often since.
func (j *journal) time(revision uint64) (time.Time, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.clock
	if revision < c.from { // its batch may be durable, and not visible yet
		c = j.before
	}
	return c.reading.Add(time.Since(c.reading)), revision >= c.from
}

// maxBuffer is the size up to which the buffer of a write is kept for the next.
const maxBuffer = 4 << 20

// sync makes the file durable. If that fails, nobody knows what of it is: the operating system may have
// forgotten that it has not written some of it, so that the next call would succeed.
func (j *journal) sync() error {
	if err := j.file.Sync(); err != nil {
		j.broken = errors.Join(errUnknown, err)
		return j.broken
	}
	return nil
}

// rotate begins a log file with room for a number of bytes. The first write in the file has the revision. If there is a
// file that begins with the revision, it has leases and compactions alone, and is replaced by one with the same.
func (j *journal) rotate(revision uint64, room int64) error {
	var all []memory.LeaseChange
	for id, ttl := range j.leases {
		all = append(all, memory.LeaseChange{ID: id, TTL: ttl})
	}
	head := func(size int64) []byte {
		buf := frame.Append(nil, 0, func(buf []byte) []byte {
			return frame.AppendNumbers(buf, kindLog, frame.Format, revision, uint64(size))
		})
		if len(all) == 0 && j.compacted == 0 {
			return buf
		}
		buf = append(buf, make([]byte, frame.Align(int64(len(buf)))-int64(len(buf)))...)
		return frame.Append(buf, int64(len(buf)), func(buf []byte) []byte {
			buf = appendLeases(buf, kindLeases, all)
			if j.compacted > 0 {
				buf = frame.AppendNumbers(buf, kindCompact, j.compacted)
			}
			return buf
		})
	}
	size := max(j.size, frame.Align(int64(len(head(math.MaxInt64))))+frame.Align(frame.SectorSize)+frame.Align(room))
	first := head(size)
	next, err := replace(j.files, fileName(logPrefix, revision), size, func(f file) error {
		_, err := f.WriteAt(first, 0)
		return err
	})
	if err != nil {
		if errors.Is(err, errUnknown) { // two files could have the same revision
			j.broken = err
		}
		return err
	}
	if j.file != nil {
		err = j.file.Close() // what it has is durable
	}
	j.file, j.end, j.position, j.written = next, size, frame.Align(int64(len(first))), 0
	return err
}

// check returns the error of the last write, unless a write could succeed now.
func (j *journal) check() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure == nil {
		return nil
	}
	if err := j.prepare(j.revision + 1); err != nil {
		return j.failed(err)
	}
	if j.end-j.position < j.size/2 {
		if err := j.rotate(j.revision+1, 0); err != nil {
			return j.failed(err)
		}
	}
	j.failure = nil
	return nil
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file, j.broken = nil, storage.ErrClosed
	return err
}

// zero overwrites a part of a file with zeros.
func zero(f file, position, n int64) error {
	_, err := f.WriteAt(make([]byte, n), position)
	return err
}

// logFile is a log file as it was read.
type logFile struct {
	name  string
	first uint64 // revision
	size  int64
	// position is where the next frame comes, and torn how many bytes after that are not zero.
	position, torn int64
}

// readLog reads a log file, and gives what it has to r. Only the last file may end in a torn frame.
func readLog(fs files, name string, last bool, r LogReader) (l logFile, err error) {
	l.name = name
	fail := func(position int64, err error) (logFile, error) {
		return l, &DamageError{File: name, Position: position, Err: err}
	}
	data, err := readAll(fs, name)
	if err != nil {
		return l, err
	}
	l.size = int64(len(data))
	payload, position, err := frame.At(data, 0)
	if err != nil {
		return fail(0, err)
	}
	first, size, err := (&frame.Decoder{Data: payload}).Head(kindLog)
	named, _ := fileRevision(logPrefix, name)
	switch l.first = first; {
	case err != nil:
		return fail(0, err)
	case named != first:
		return fail(0, fmt.Errorf("it begins at revision %d", first))
	case size != uint64(len(data)):
		return fail(int64(len(data)), fmt.Errorf("it has %d bytes of %d", len(data), size))
	}
	for {
		payload, next, err := frame.At(data, position)
		switch {
		case err == nil:
		case errors.Is(err, frame.ErrEnd):
			l.position = position
			return l, nil
		case errors.Is(err, frame.ErrTorn) && last && !frame.Follows(data, position):
			l.position, l.torn = position, int64(len(data))-position
			return l, nil
		default:
			return fail(position, err)
		}
		if err := readPayload(&frame.Decoder{Data: payload}, r); err != nil {
			return fail(position, err)
		}
		position = next
	}
}

// logNames returns the names of the log files, in order.
func logNames(names []string) []string { return withPrefix(names, logPrefix) }

func withPrefix(names []string, prefix string) []string {
	var found []string
	for _, name := range names {
		if _, ok := fileRevision(prefix, name); ok {
			found = append(found, name)
		}
	}
	slices.Sort(found) // the digits are as many in all
	return found
}
