package datadir

import (
	"encoding/binary"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/internal/frame"
	"flyball.dev/storage/memory"
)

// The payload of a frame of the log has parts. The first byte of a part says what the rest is. A batch is the last part.
const (
	kindLog   = 'L' // the first frame of a log file: the format, the first revision, the size of the file
	kindBatch = 'B' // writes that became durable together: the first revision, the writes
	// Each lease is its ID and its time to live in nanoseconds, zero if it was revoked.
	kindLeases  = 'G' // all leases: their number, the leases
	kindChanges = 'C' // changes of leases: their number, the leases
	kindCompact = 'K' // the compaction of the history: the revision
	kindClock   = 'T' // the wall clock was set before the batch that follows: by how many nanoseconds forward
)

// The first byte of a write.
const (
	opPut    = 1 // key, time of expiry, value
	opDelete = 2 // key
	opLeased = 3 // key, time of expiry, lease, value
	// opSame is added if the write is of the same transaction as the one before it. Any other write has the next
	// revision.
	opSame = 4
)

// appendLeases appends leases.
func appendLeases(buf []byte, kind byte, leases []memory.LeaseChange) []byte {
	buf = frame.AppendNumbers(buf, kind, uint64(len(leases)))
	for _, l := range leases {
		buf = binary.AppendVarint(buf, l.ID)
		buf = binary.AppendUvarint(buf, uint64(l.TTL))
	}
	return buf
}

// appendBatch appends the payload of a batch. Records expire by a reading of the clock. Since the reading before, the wall clock
// was set by a duration.
func appendBatch(buf []byte, b memory.Batch, clock time.Time, set time.Duration) []byte {
	if len(b.Leases) > 0 {
		buf = appendLeases(buf, kindChanges, b.Leases)
	}
	if b.Compacted > 0 {
		buf = frame.AppendNumbers(buf, kindCompact, b.Compacted)
	}
	if len(b.Events) == 0 {
		return buf
	}
	if set != 0 {
		buf = binary.AppendVarint(append(buf, kindClock), int64(set))
	}
	buf = append(buf, kindBatch)
	buf = binary.AppendUvarint(buf, b.Events[0].Record.Revision)
	revision := uint64(0)
	for _, e := range b.Events {
		var same byte
		if e.Record.Revision == revision {
			same = opSame
		}
		revision = e.Record.Revision
		if e.Type == storage.Deleted {
			buf = frame.AppendString(append(buf, opDelete|same), e.Record.Key)
			continue
		}
		op := byte(opPut)
		if e.Record.Lease != 0 {
			op = opLeased
		}
		buf = frame.AppendString(append(buf, op|same), e.Record.Key)
		buf = frame.AppendExpiry(buf, e.Record.Expires, clock)
		if e.Record.Lease != 0 {
			buf = binary.AppendVarint(buf, e.Record.Lease)
		}
		buf = frame.AppendString(buf, e.Record.Value())
	}
	return buf
}

// LogReader gets what a log has, in the order in which it became durable. The arguments are valid during the call.
type LogReader interface {
	// Leases is called with all leases, or with changes of leases. The changes come before the transactions that became
	// durable together with them.
	Leases(all bool, leases []memory.LeaseChange)
	// Compact is called with the revision that a client has compacted the history at.
	Compact(revision uint64) error
	// ClockSet is called before the next transaction if the wall clock was set forward by a duration, or back by a negative one. The
	// times at which the records of earlier transactions expire are from before that.
	ClockSet(by time.Duration)
	// Transaction is called with the writes of a revision.
	Transaction(revision uint64, writes []storage.Write) error
}

// readPayload reads the payload of a frame after the first of a log.
func readPayload(d *frame.Decoder, r LogReader) error {
	for first := true; first || len(d.Data) > 0; first = false {
		switch kind := d.Byte(); kind {
		case kindLeases, kindChanges:
			if leases := readLeases(d); d.Err == nil {
				r.Leases(kind == kindLeases, leases)
			}
		case kindCompact:
			if revision := d.Uint(); d.Err == nil {
				if err := r.Compact(revision); err != nil {
					return err
				}
			}
		case kindClock:
			if by := d.Int(); d.Err == nil {
				r.ClockSet(time.Duration(by))
			}
		case kindBatch:
			return readBatch(d, r.Transaction)
		default:
			return frame.ErrPayload
		}
		if d.Err != nil {
			return d.Err
		}
	}
	return nil
}

// readLeases reads leases and their number.
func readLeases(d *frame.Decoder) (leases []memory.LeaseChange) {
	for n := d.Uint(); n > 0 && d.Err == nil; n-- {
		leases = append(leases, memory.LeaseChange{ID: d.Int(), TTL: time.Duration(d.Uint())})
	}
	return leases
}

// readBatch reads a batch after its first byte, and calls f with each transaction and its revision. The writes are valid
// until f returns.
func readBatch(d *frame.Decoder, f func(revision uint64, writes []storage.Write) error) error {
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
		case opLeased:
			w.Key, w.Expires, w.Lease, w.Value = string(d.Bytes()), d.Time(), d.Int(), append([]byte(nil), d.Bytes()...)
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
