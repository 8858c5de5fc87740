package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"flyball.dev/storage"
)

// The first byte of a payload says what the rest is. Numbers are varints; a string is its length and its
// bytes; a time is nanoseconds since 1970, or zero for none.
const (
	kindLog      = 'L' // the first frame of a log file: the format, the first revision, the size of the file
	kindBatch    = 'B' // writes that became durable together: the first revision, the writes
	kindSnapshot = 'S' // the first frame of a snapshot: the format, the revision, zero
	kindRecords  = 'R' // records of a snapshot
	kindEnd      = 'E' // the last frame of a snapshot: the number of records
)

// The first byte of a write.
const (
	opPut    = 1 // key, time of expiry, value
	opDelete = 2 // key
	// opSame is added if the write is of the same transaction as the one before it. Any other write has the next
	// revision.
	opSame = 4
)

// format is the version of the format of the files.
const format = 1

// appendBatch appends the payload of a batch.
func appendBatch(buf []byte, events []*storage.Event) []byte {
	buf = append(buf, kindBatch)
	buf = binary.AppendUvarint(buf, events[0].Record.Revision)
	revision := uint64(0)
	for _, e := range events {
		var same byte
		if e.Record.Revision == revision {
			same = opSame
		}
		revision = e.Record.Revision
		if e.Type == storage.Deleted {
			buf = appendString(append(buf, opDelete|same), e.Record.Key)
			continue
		}
		buf = appendString(append(buf, opPut|same), e.Record.Key)
		buf = appendTime(buf, e.Record.Expires)
		buf = appendString(buf, e.Record.Value())
	}
	return buf
}

// appendRecord appends a record of a snapshot.
func appendRecord(buf []byte, r *storage.Record) []byte {
	buf = appendString(buf, r.Key)
	buf = binary.AppendUvarint(buf, r.Created)
	buf = binary.AppendUvarint(buf, r.Revision)
	buf = binary.AppendUvarint(buf, r.Version)
	buf = appendTime(buf, r.Expires)
	return appendString(buf, r.Value())
}

// appendHead appends the payload of the first frame of a file, or with a count that of the last one.
func appendHead(buf []byte, kind byte, numbers ...uint64) []byte {
	buf = append(buf, kind)
	for _, n := range numbers {
		buf = binary.AppendUvarint(buf, n)
	}
	return buf
}

func appendString[T string | []byte](buf []byte, s T) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(s)))
	return append(buf, s...)
}

func appendTime(buf []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(buf, 0)
	}
	return binary.AppendVarint(buf, t.UnixNano())
}

var errPayload = errors.New("the content of a frame is invalid")

// decoder reads a payload. After an error, all results are zero.
type decoder struct {
	data []byte
	err  error
}

func (d *decoder) fail() {
	d.data, d.err = nil, errPayload
}

func (d *decoder) byte() byte {
	if len(d.data) == 0 {
		d.fail()
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.data)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.data = d.data[size:]
	return n
}

// bytes returns a part of the payload.
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.data)) {
		d.fail()
		return nil
	}
	b := d.data[:n:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) time() time.Time {
	n, size := binary.Varint(d.data)
	if size <= 0 {
		d.fail()
		return time.Time{}
	}
	d.data = d.data[size:]
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// head reads the first frame of a file.
func (d *decoder) head(kind byte) (revision, size uint64, err error) {
	if d.byte() != kind {
		return 0, 0, errPayload
	}
	if f := d.uint(); d.err == nil && f != format {
		return 0, 0, fmt.Errorf("%w: format %d", ErrFormat, f)
	}
	revision, size = d.uint(), d.uint()
	if len(d.data) > 0 {
		d.fail()
	}
	return revision, size, d.err
}

// batch reads a batch and calls f with each transaction and its revision. The writes are valid until f returns.
func (d *decoder) batch(f func(revision uint64, writes []storage.Write) error) error {
	if d.byte() != kindBatch {
		return errPayload
	}
	var writes []storage.Write
	for revision := d.uint(); d.err == nil && len(d.data) > 0; revision++ {
		writes = d.transaction(writes[:0])
		if d.err != nil {
			return d.err
		}
		if err := f(revision, writes); err != nil {
			return err
		}
	}
	return d.err
}

// transaction reads the writes up to the next that begins a transaction.
func (d *decoder) transaction(writes []storage.Write) []storage.Write {
	for first := byte(0); d.err == nil && len(d.data) > 0 && d.data[0]&opSame == first; first = opSame {
		w := storage.Write{If: storage.Any}
		switch d.byte() &^ opSame {
		case opPut:
			w.Key, w.Expires, w.Value = string(d.bytes()), d.time(), append([]byte(nil), d.bytes()...)
		case opDelete:
			w.Delete, w.Key = true, string(d.bytes())
		default:
			d.fail()
		}
		writes = append(writes, w)
	}
	if len(writes) == 0 {
		d.fail()
	}
	return writes
}
