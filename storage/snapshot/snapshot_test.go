package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/snapshot"
)

// written returns a snapshot of some records, and the header.
func written(t testing.TB, n, size int) ([]byte, snapshot.Header, []*storage.Record) {
	t.Helper()
	s := memory.New(memory.Options{})
	defer s.Close()
	for i := range n {
		w := storage.Write{Key: fmt.Sprintf("/registry/things/%05d", i), Value: bytes.Repeat([]byte{byte(i % 3)}, size)}
		if i%3 == 0 {
			w.Expires = time.Now().Add(time.Hour)
		}
		if _, err := s.Put(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.Range(t.Context(), storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	h := snapshot.Header{Revision: page.Revision, Taken: time.Unix(0, 1234567890123456789)}
	var buf bytes.Buffer
	if err := snapshot.Write(&buf, h, page.Records); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), h, page.Records
}

// line describes a record.
func line(r storage.Record, value []byte) string {
	return fmt.Sprintf("%s=%x created %d, revision %d, version %d, expires %d", r.Key, value, r.Created, r.Revision, r.Version, r.Expires.UnixNano())
}

// read returns what a snapshot has.
func read(r io.Reader) (lines []string, h snapshot.Header, err error) {
	h, err = snapshot.Read(r, func(r storage.Record, value []byte) { lines = append(lines, line(r, value)) })
	return lines, h, err
}

func TestWriteAndRead(t *testing.T) {
	for _, test := range []struct{ n, size int }{{0, 0}, {1, 0}, {10, 5000}, {300, 3000}, {2, 1 << 20}} {
		data, want, records := written(t, test.n, test.size)
		lines, h, err := read(bytes.NewReader(data))
		if err != nil || h.Revision != want.Revision || !h.Taken.Equal(want.Taken) || len(lines) != test.n {
			t.Fatalf("%d records of %d bytes: %d, %+v, %v", test.n, test.size, len(lines), h, err)
		}
		for i, r := range records {
			if want := line(*r, r.Value()); lines[i] != want {
				t.Errorf("a record is %.200s, and was %.200s", lines[i], want)
			}
		}
	}
}

// TestDamage flips each byte of a snapshot, cuts it at each length and appends to it: each is an error.
func TestDamage(t *testing.T) {
	data, _, _ := written(t, 5, 40)
	check := func(what string, data []byte) {
		_, _, err := read(bytes.NewReader(data))
		damage, damaged := errors.AsType[*snapshot.DamageError](err)
		switch {
		case err == nil:
			t.Errorf("%s: no error", what)
		case !damaged && !errors.Is(err, snapshot.ErrForeign):
			t.Errorf("%s: %v", what, err)
		case damaged && damage.Position > int64(len(data)):
			t.Errorf("%s: damaged at byte %d of %d", what, damage.Position, len(data))
		}
	}
	for i := range data {
		flipped := bytes.Clone(data)
		flipped[i] ^= byte(1 + i%255)
		check(fmt.Sprintf("byte %d flipped", i), flipped)
		check(fmt.Sprintf("%d bytes", i), data[:i])
	}
	check("a byte more", append(bytes.Clone(data), 0))
	check("twice", append(bytes.Clone(data), data...))
	check("text", []byte(strings.Repeat("kind: Config\n", 100)))
	check("zeros", make([]byte, 1000))
}

// TestReadError returns the error of the reader, not the error of a short file.
func TestReadError(t *testing.T) {
	data, _, _ := written(t, 5, 40)
	broken := errors.New("broken")
	if _, _, err := read(io.MultiReader(bytes.NewReader(data[:100]), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestUnordered refuses what no store has: keys twice, or revisions later than the snapshot.
func TestUnordered(t *testing.T) {
	_, h, records := written(t, 2, 4)
	late := *records[1]
	late.Revision = h.Revision + 1
	for name, records := range map[string][]*storage.Record{
		"twice": {records[0], records[0]}, "in reverse": {records[1], records[0]}, "late": {records[0], &late},
	} {
		var buf bytes.Buffer
		if err := snapshot.Write(&buf, h, records); err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(&buf); err == nil || !strings.Contains(err.Error(), "a record is invalid") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// FuzzRead reads any bytes. What Read accepts is the same when it is written and read again.
func FuzzRead(f *testing.F) {
	for _, n := range []int{0, 1, 5} {
		data, _, _ := written(f, n, 40)
		f.Add(data)
	}
	f.Add([]byte("kind: Config\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []*storage.Record
		h, err := snapshot.Read(bytes.NewReader(data), func(r storage.Record, value []byte) {
			r.Content = content{value: value}
			records = append(records, &r)
		})
		if err != nil {
			return
		}
		var buf bytes.Buffer
		if err := snapshot.Write(&buf, h, records); err != nil {
			t.Fatal(err)
		}
		lines, again, err := read(&buf)
		if err != nil || again.Revision != h.Revision || !again.Taken.Equal(h.Taken) || len(lines) != len(records) {
			t.Fatalf("%+v with %d records is %+v with %d records when it is read again, %v", h, len(records), again, len(lines), err)
		}
		for i, r := range records {
			if want := line(*r, r.Value()); lines[i] != want {
				t.Errorf("a record is %q when it is read again, and was %q", lines[i], want)
			}
		}
	})
}

// content is the value of a record without a store.
type content struct {
	storage.Content
	value []byte
}

func (c content) Value() []byte { return c.value }
