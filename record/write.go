package record

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// magic is the beginning of a recording, with the version of the format.
const magic = "flyball recording 1\n"

const (
	// bytesPerFrame is about how many bytes a zstd frame has before compression. A damaged frame hides the rest of itself only.
	bytesPerFrame = 256 << 20
	// window is how far back the compression finds what repeats: some thousand changes.
	window = 4 << 20
	// maxEntry is the largest size of an entry. API servers refuse objects of more than 3 MiB; JSON may take some times the size.
	maxEntry = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a recording. Its methods may be called concurrently.
type Writer struct {
	mu        sync.Mutex
	out       *zstd.Encoder
	to        io.Writer
	last      time.Time
	resources map[Resource]uint64
	buf       []byte
	frame     int // bytes in the present frame
	unflushed bool
	err       error // of the first write that failed
}

// NewWriter writes the beginning of a recording to w.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	header, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, magic); err != nil {
		return nil, err
	}
	out, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	// Readers have the time without a monotonic clock.
	writer := &Writer{out: out, to: w, last: h.Began.Round(0), resources: map[Resource]uint64{}}
	writer.entry(header)
	return writer, writer.Flush()
}

// Write writes an entry. Without a time, the time is now. If the clock was set back, an entry has the time of the one
// before. Write keeps nothing of the entry. After an error, all further calls return it.
func (w *Writer) Write(e Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(e)
}

// write is Write under the lock.
func (w *Writer) write(e Entry) error {
	at := e.Time
	if at.IsZero() {
		at = time.Now()
	}
	since := max(at.Round(0).Sub(w.last).Microseconds(), 0)
	w.last = w.last.Add(time.Duration(since) * time.Microsecond)

	buf := append(w.buf[:0], byte(e.Type))
	buf = binary.AppendUvarint(buf, uint64(since))
	buf, err := w.appendResource(buf, e.Resource)
	if err != nil {
		return err
	}
	buf = appendBytes(buf, e.Namespace)
	buf = appendBytes(buf, e.Name)
	buf = appendBytes(buf, e.Text)
	buf = append(buf, e.Object...)
	w.buf = buf
	if len(buf) > maxEntry {
		return fmt.Errorf("%s %s/%s has %d bytes: more than %d cannot be recorded", e.Resource.GroupResource(), e.Namespace, e.Name, len(buf), maxEntry)
	}
	w.entry(buf)
	return w.err
}

// appendResource appends the number of a resource, or zero. At first, its description follows.
func (w *Writer) appendResource(buf []byte, r *Resource) ([]byte, error) {
	if r == nil {
		return binary.AppendUvarint(buf, 0), nil
	}
	if number, known := w.resources[*r]; known {
		return binary.AppendUvarint(buf, number), nil
	}
	description, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	number := uint64(len(w.resources) + 1)
	w.resources[*r] = number
	return appendBytes(binary.AppendUvarint(buf, number), description), nil
}

func appendBytes[T string | []byte](buf []byte, b T) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(b))), b...)
}

// entry writes the length of a payload, its checksum and the payload.
func (w *Writer) entry(payload []byte) {
	if w.err != nil {
		return
	}
	if w.frame > bytesPerFrame {
		if w.err = w.out.Close(); w.err != nil {
			return
		}
		w.out.Reset(w.to)
		w.frame = 0
	}
	var head [binary.MaxVarintLen64 + 4]byte
	n := binary.PutUvarint(head[:], uint64(len(payload)))
	binary.LittleEndian.PutUint32(head[n:], crc32.Checksum(payload, castagnoli))
	if _, w.err = w.out.Write(head[:n+4]); w.err != nil {
		return
	}
	_, w.err = w.out.Write(payload)
	w.frame += n + 4 + len(payload)
	w.unflushed = true
}

// Flush makes all entries readable.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.unflushed {
		w.err = w.out.Flush()
		w.unflushed = false
	}
	return w.err
}

// Close writes the last entry, and the end of the recording. It does not close the writer below.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.write(Entry{Type: Ended}); err != nil {
		return err
	}
	w.err = w.out.Close()
	if w.err != nil {
		return w.err
	}
	w.err = errClosed
	return nil
}

var errClosed = fmt.Errorf("the recording is closed")
