package datadir

import (
	"encoding/binary"

	"flyball.dev/storage"
	"flyball.dev/storage/internal/frame"
)

// The first byte of the payload of a frame of the log says what the rest is.
const (
	kindLog   = 'L' // the first frame of a log file: the format, the first revision, the size of the file
	kindBatch = 'B' // writes that became durable together: the first revision, the writes
)

// The first byte of a write.
const (
	opPut    = 1 // key, time of expiry, value
	opDelete = 2 // key
	// opSame is added if the write is of the same transaction as the one before it. Any other write has the next
	// revision.
	opSame = 4
)

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
			buf = frame.AppendString(append(buf, opDelete|same), e.Record.Key)
			continue
		}
		buf = frame.AppendString(append(buf, opPut|same), e.Record.Key)
		buf = frame.AppendTime(buf, e.Record.Expires)
		buf = frame.AppendString(buf, e.Record.Value())
	}
	return buf
}

// readBatch reads a batch and calls f with each transaction and its revision. The writes are valid until f returns.
func readBatch(d *frame.Decoder, f func(revision uint64, writes []storage.Write) error) error {
	if d.Byte() != kindBatch {
		return frame.ErrPayload
	}
	var writes []storage.Write
	for revision := d.Uint(); d.Err == nil && len(d.Data) > 0; revision++ {
		writes = readTransaction(d, writes[:0])
		if d.Err != nil {
			return d.Err
		}
		if err := f(revision, writes); err != nil {
			return err
		}
	}
	return d.Err
}

// readTransaction reads the writes up to the next that begins a transaction.
func readTransaction(d *frame.Decoder, writes []storage.Write) []storage.Write {
	for first := byte(0); d.Err == nil && len(d.Data) > 0 && d.Data[0]&opSame == first; first = opSame {
		w := storage.Write{If: storage.Any}
		switch d.Byte() &^ opSame {
		case opPut:
			w.Key, w.Expires, w.Value = string(d.Bytes()), d.Time(), append([]byte(nil), d.Bytes()...)
		case opDelete:
			w.Delete, w.Key = true, string(d.Bytes())
		default:
			d.Fail()
		}
		writes = append(writes, w)
	}
	if len(writes) == 0 {
		d.Fail()
	}
	return writes
}
