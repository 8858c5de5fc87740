package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	pods    = &Resource{Version: "v1", Name: "pods", Kind: "Pod", Namespaced: true}
	secrets = &Resource{Version: "v1", Name: "secrets", Kind: "Secret", Namespaced: true}
	widgets = &Resource{Group: "example.com", Version: "v1", Name: "widgets", Kind: "Widget"}
	began   = time.Date(2226, 11, 26, 14, 0, 0, 0, time.UTC)
)

// randomEntries returns n entries, a random time apart.
func randomEntries(random *rand.Rand, n int) []Entry {
	at := began
	var entries []Entry
	for _, r := range []*Resource{pods, secrets, widgets} {
		entries = append(entries, Entry{Type: Served, Time: at, Resource: r}, Entry{Type: Listed, Time: at, Resource: r})
	}
	for range n {
		at = at.Add(time.Duration(random.IntN(1e6)) * time.Microsecond)
		r := []*Resource{pods, secrets, widgets}[random.IntN(3)]
		e := Entry{Time: at, Resource: r, Name: fmt.Sprint("o", random.IntN(20))}
		if r.Namespaced {
			e.Namespace = "default"
		}
		e.Type = []Type{Added, Modified, Modified, Deleted, Exists}[random.IntN(5)]
		switch random.IntN(60) {
		case 0:
			e = Entry{Type: Lost, Time: at, Resource: r}
		case 1:
			e = Entry{Type: Listed, Time: at, Resource: r}
		case 2:
			e = Entry{Type: Missing, Time: at, Resource: r, Text: "forbidden"}
		default:
			e.Object = fmt.Appendf(nil, `{"kind":%q,"metadata":{"name":%q},"n":%d}`, r.Kind, e.Name, random.Uint64())
		}
		entries = append(entries, e)
	}
	return entries
}

// write returns a recording of entries.
func write(t testing.TB, entries []Entry) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Began: began, Server: "https://example.com", Version: "v1.37.0"})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil { // at a time before the entries, as after the clock was set back
		t.Fatal(err)
	}
	return file.Bytes()
}

// read returns the entries of a recording, without its end, and the error.
func read(file []byte) (entries []Entry, err error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for e, err := range r.All() {
		if err != nil {
			return entries, err
		}
		if e.Type != Ended {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func TestWritten(t *testing.T) {
	entries := randomEntries(rand.New(rand.NewPCG(1, 2)), 2000)
	got, err := read(write(t, entries))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(entries, got); diff != "" {
		t.Error(diff)
	}
}

// TestCut cuts a recording at every byte. The entries before the cut can be read, at least the flushed ones.
func TestCut(t *testing.T) {
	entries := randomEntries(rand.New(rand.NewPCG(3, 4)), 12)
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Began: began})
	if err != nil {
		t.Fatal(err)
	}
	readable := map[int]int{} // the entries that must be readable, by the size of the file
	for i, e := range entries {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
		if i%5 == 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			readable[file.Len()] = i + 1
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	least := 0
	for n := range file.Len() {
		least = max(least, readable[n])
		got, err := read(file.Bytes()[:n])
		if !errors.Is(err, ErrCut) && !(n < len(magic) && errors.Is(err, ErrForeign)) && !(n > file.Len()-8 && len(got) == len(entries)) {
			t.Fatalf("cut at %d of %d: %v", n, file.Len(), err)
		}
		if len(got) < least {
			t.Fatalf("cut at %d of %d: %d entries, want at least %d", n, file.Len(), len(got), least)
		}
		if diff := cmp.Diff(entries[:len(got)], got); len(got) > 0 && diff != "" {
			t.Fatalf("cut at %d of %d: %s", n, file.Len(), diff)
		}
	}
	if least == 0 {
		t.Error("no flush made entries readable")
	}
}

// TestDamage changes every byte of a recording. The change is found, or the entries are the right ones.
func TestDamage(t *testing.T) {
	entries := randomEntries(rand.New(rand.NewPCG(5, 6)), 12)
	file := write(t, entries)
	found := 0
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 0x41
		got, err := read(damaged)
		if err != nil {
			found++
			if _, isDamage := errors.AsType[*DamageError](err); !isDamage && !errors.Is(err, ErrCut) && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrFormat) {
				t.Fatalf("byte %d: the error %v (%T)", i, err, err)
			}
		}
		if len(got) > len(entries) || err == nil && len(got) < len(entries) {
			t.Fatalf("byte %d: %d entries of %d, error %v", i, len(got), len(entries), err)
		}
		if diff := cmp.Diff(entries[:len(got)], got); len(got) > 0 && diff != "" {
			t.Fatalf("byte %d: %s", i, diff)
		}
	}
	if found < len(file)*9/10 {
		t.Errorf("only %d changes of %d were found", found, len(file))
	}
}

// FuzzRead reads anything.
func FuzzRead(f *testing.F) {
	f.Add(write(f, randomEntries(rand.New(rand.NewPCG(7, 8)), 10)))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, file []byte) {
		entries, _ := read(file)
		m := NewMoment(Header{})
		for _, e := range entries {
			m.Apply(e)
		}
	})
}

// FuzzJSON compares what the functions for JSON find with what encoding/json decodes.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"kind":"Pod","metadata":{"name":"a\"b\\","namespace":"x","resourceVersion":"1","labels":{"name":"]"}},"spec":[1,{"a":[]}]}`))
	f.Add([]byte(`{ "metadata" : { "name" : "\u0061" } }`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var want map[string]json.RawMessage
		wrong := json.Unmarshal(b, &want) != nil
		got := map[string]string{}
		err := members(b, func(name string, value []byte) bool {
			got[name] = string(value)
			return true
		})
		if wrong || bytes.ContainsAny(b, `\`) && err == nil {
			return // names with escapes are as written
		}
		if want == nil { // null
			return
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d members, want %d", len(got), len(want))
		}
		for name, value := range want {
			if got[name] != string(value) {
				t.Errorf("%q is %q, want %q", name, got[name], value)
			}
		}
	})
}

// TestMoments compares moments with a model that reads all entries again for each.
func TestMoments(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	entries := randomEntries(random, 500)
	file := filepath.Join(t.TempDir(), "recording")
	if err := os.WriteFile(file, write(t, entries), 0o600); err != nil {
		t.Fatal(err)
	}
	end := entries[len(entries)-1].Time
	for range 100 {
		at := began.Add(time.Duration(random.Int64N(int64(end.Sub(began)))))
		want := map[Key]string{}
		var after []Entry
		for _, e := range entries {
			switch {
			case e.Time.After(at):
				after = append(after, e)
			case e.Object == nil:
			case e.Type == Deleted:
				delete(want, e.Key())
			default:
				want[e.Key()] = string(e.Object)
			}
		}
		m, f, err := ReadMoment(file, at.Format(time.RFC3339Nano))
		if err != nil {
			t.Fatal(err)
		}
		got := map[Key]string{}
		for key, object := range m.Objects {
			got[key] = string(object)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("at %s: %s", at, diff)
		}
		for _, e := range after {
			if next, err := f.Next(); err != nil || !next.Time.Equal(e.Time) || next.Name != e.Name {
				t.Fatalf("at %s, the next entry is %v, %v, want %v", at, next, err, e)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTimes reads the times of moments.
func TestTimes(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC
	defer func() { time.Local = zone }()
	file := filepath.Join(t.TempDir(), "recording")
	entry := func(after time.Duration) Entry {
		return Entry{Type: Added, Time: began.Add(after), Resource: widgets, Name: after.String(), Object: []byte("{}")}
	}
	content := write(t, []Entry{entry(time.Second), entry(2 * time.Minute), entry(11 * time.Hour)})
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at      string
		objects int
		err     string
	}{
		{"", 3, ""},
		{"end", 3, ""},
		{"14:00:00", 0, ""},
		{"14:00", 0, ""},
		{"14:00:01", 1, ""},
		{"14:00:01.5", 1, ""},
		{"00:30", 2, ""}, // of the next day
		{"2226-11-26T14:02:00Z", 2, ""},
		{"2226-11-26T15:02:00+01:00", 2, ""},
		{"2226-11-26T14:02:00", 2, ""},
		{"2226-11-26 14:01:59", 1, ""},
		{"+2m", 2, ""},
		{"+0s", 0, ""},
		{"-1s", 2, ""},
		{"-0s", 3, ""},
		{"13:00", 0, "the recording ends at 2226-11-27T01:00:00Z, before 13:00"},
		{"+12h", 0, "the recording ends at 2226-11-27T01:00:00Z, before +12h"},
		{"-12h", 0, "the recording begins at 2226-11-26T14:00:00Z, after -12h"},
		{"2226-11-25T14:00:00Z", 0, "the recording begins at 2226-11-26T14:00:00Z, after 2226-11-25T14:00:00Z"},
		{"noon", 0, `"noon" is not a time: write 14:03:07, 2026-11-26T14:03:07Z, +90s, -5m or end`},
		{"+soon", 0, `"+soon" is not a time: after + and - there must be a duration, such as 90s`},
	} {
		m, f, err := ReadMoment(file, tt.at)
		switch {
		case tt.err != "":
			if err == nil || err.Error() != file+": "+tt.err {
				t.Errorf("%q: the error %v, want %s", tt.at, err, tt.err)
			}
		case err != nil:
			t.Errorf("%q: %v", tt.at, err)
		case len(m.Objects) != tt.objects:
			t.Errorf("%q: %d objects, want %d", tt.at, len(m.Objects), tt.objects)
		}
		if f != nil {
			f.Close()
		}
	}
}

// TestRedact redacts Secrets and other fields. Equal values stay equal, different ones different.
func TestRedact(t *testing.T) {
	r, err := NewRedactor(append([]string{"databases.example.com=spec.users.password"}, SecretFields...))
	if err != nil {
		t.Fatal(err)
	}
	redact := func(resource schema.GroupResource, object string) (content struct {
		Metadata struct{ Annotations map[string]string }
		Data     map[string][]byte
		Spec     struct {
			Users []struct{ Name, Password string }
		}
	}) {
		t.Helper()
		redacted, err := r.Redact(resource, []byte(object))
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hunter2", "aHVudGVyMg", "c2VjcmV0", "secret2"} {
			if strings.Contains(string(redacted), secret) {
				t.Errorf("%s is in %s", secret, redacted)
			}
		}
		if err := json.Unmarshal(redacted, &content); err != nil {
			t.Fatal(err)
		}
		return content
	}
	a := redact(secrets.GroupResource(), `{"metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hunter2"}},
		"data":{"x":"aHVudGVyMg==","y":"aHVudGVyMg==","z":"c2VjcmV0","empty":"","json":"eyJhIjoic2VjcmV0MiJ9"}}`)
	b := redact(secrets.GroupResource(), `{"metadata":{"name":"b"},"data":{"x":"aHVudGVyMg=="}}`)
	if !bytes.Equal(a.Data["x"], a.Data["y"]) || !bytes.Equal(a.Data["x"], b.Data["x"]) {
		t.Error("equal values are different")
	}
	if bytes.Equal(a.Data["x"], a.Data["z"]) || len(a.Data["empty"]) > 0 || !json.Valid(a.Data["json"]) {
		t.Errorf("the data is %q", a.Data)
	}
	d := redact(schema.GroupResource{Group: "example.com", Resource: "databases"}, `{"spec":{"users":[{"name":"ann","password":"hunter2"},{"name":"bob"}]}}`)
	if d.Spec.Users[0].Name != "ann" || !strings.HasPrefix(d.Spec.Users[0].Password, "redacted-") || d.Spec.Users[1].Password != "" {
		t.Errorf("the users are %v", d.Spec.Users)
	}
	config := []byte(`{"data":{"x":"hunter2"}}`)
	if same, err := r.Redact(schema.GroupResource{Resource: "configmaps"}, config); err != nil || !bytes.Equal(same, config) {
		t.Errorf("a ConfigMap becomes %s, %v", same, err)
	}
	for _, wrong := range []string{"", "secrets", "=data", "secrets=", "secrets=a..b"} {
		if _, err := NewRedactor([]string{wrong}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// TestForeign reads files that are no recordings.
func TestForeign(t *testing.T) {
	for content, want := range map[string]error{"": ErrForeign, "hello": ErrForeign, strings.Repeat("x", 100): ErrForeign,
		strings.Replace(magic, "1", "2", 1) + "...": ErrFormat, magic: ErrCut} {
		if _, err := read([]byte(content)); !errors.Is(err, want) {
			t.Errorf("%q: the error %v, want %v", content, err, want)
		}
	}
}

// failing fails after n bytes.
type failing struct{ n int }

func (f *failing) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// TestFullDisk writes to a file that takes no more.
func TestFullDisk(t *testing.T) {
	w, err := NewWriter(&failing{400}, Header{Began: began})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; err == nil; i++ {
		if i > 10000 {
			t.Fatal("no error")
		}
		e := Entry{Type: Added, Resource: widgets, Name: fmt.Sprint(rand.Uint64()), Object: []byte("{}")}
		if err = w.Write(e); err == nil {
			err = w.Flush()
		}
	}
	if !errors.Is(err, io.ErrShortWrite) || !errors.Is(w.Close(), io.ErrShortWrite) {
		t.Errorf("the error is %v", err)
	}
}
