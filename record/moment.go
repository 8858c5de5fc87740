package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key identifies an object of a recording.
type Key struct {
	Group, Resource, Namespace, Name string
}

// String returns the key as kubectl writes it, such as deployments.apps/web, after the namespace.
func (k Key) String() string {
	name := k.GroupResource().String() + "/" + k.Name
	if k.Namespace != "" {
		return k.Namespace + " " + name
	}
	return name
}

// GroupResource returns the resource of the object.
func (k Key) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// Key returns the key of the object of an entry.
func (e Entry) Key() Key {
	return Key{e.Resource.Group, e.Resource.Name, e.Namespace, e.Name}
}

// Moment has the objects of a cluster at a moment.
type Moment struct {
	Header Header
	// Time is the time of the last entry that the moment has.
	Time time.Time
	// Objects has the JSON of the objects, which must not be changed.
	Objects map[Key]json.RawMessage
	// Resources are the resources that were recorded at the moment.
	Resources map[schema.GroupResource]*Resource
	// Incomplete has the resources with objects that may be missing or old, and the reasons.
	Incomplete map[schema.GroupResource]string
}

// NewMoment returns the moment before the first entry of a recording.
func NewMoment(h Header) *Moment {
	return &Moment{Header: h, Time: h.Began, Objects: map[Key]json.RawMessage{},
		Resources: map[schema.GroupResource]*Resource{}, Incomplete: map[schema.GroupResource]string{}}
}

// Apply makes the moment the one after an entry.
func (m *Moment) Apply(e Entry) {
	m.Time = e.Time
	if e.Resource == nil {
		return
	}
	resource := e.Resource.GroupResource()
	switch e.Type {
	case Served:
		m.Resources[resource] = e.Resource
		m.Incomplete[resource] = "its objects were not listed yet"
	case Listed:
		delete(m.Incomplete, resource)
	case Lost:
		m.Incomplete[resource] = "changes are missing"
	case Missing:
		m.Incomplete[resource] = e.Text
	case Removed:
		delete(m.Resources, resource)
		delete(m.Incomplete, resource)
		for key := range m.Objects {
			if key.GroupResource() == resource {
				delete(m.Objects, key)
			}
		}
	case Exists, Added, Modified:
		m.Objects[e.Key()] = e.Object
	case Deleted:
		delete(m.Objects, e.Key())
	}
}

// ReadMoment returns the objects of a recording at the time of a specification, and a reader of the entries after it, which the
// caller must close:
//
//	14:03:07                   that time of day, of the day on which the recording began, or the next time it was 14:03:07
//	2026-11-26T14:03:07Z       that time
//	+90s, -5m                  that long after the beginning, or before the end
//	end, or nothing            the end
//
// Times without a zone are local. A recording without an end is read as far as it goes. ReadMoment fails if the time is before the
// beginning or after the end.
func ReadMoment(file, at string) (*Moment, *File, error) {
	f, err := Open(file)
	if err != nil {
		return nil, nil, err
	}
	m, err := f.moment(at)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, f, nil
}

// SplitMoment splits FILE@TIME. The time is empty if there is none.
func SplitMoment(text string) (file, at string) {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return text[:i], text[i+1:]
	}
	return text, ""
}

// File is a recording in a file, from an entry on. Only one goroutine may use it.
type File struct {
	*Reader
	file *os.File
	next *Entry // the next entry, if it was read already
}

// Open opens a recording.
func Open(file string) (*File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &File{Reader: r, file: f}, nil
}

// Next returns the next entry; see [Reader.Next].
func (f *File) Next() (Entry, error) {
	if next := f.next; next != nil {
		f.next = nil
		return *next, nil
	}
	return f.Reader.Next()
}

// Close closes the file.
func (f *File) Close() error {
	f.Reader.Close()
	return f.file.Close()
}

// moment reads the entries up to a moment.
func (f *File) moment(at string) (*Moment, error) {
	until, err := f.find(at)
	if err != nil {
		return nil, err
	}
	m := NewMoment(f.Header)
	for {
		e, err := f.Next()
		switch {
		case err == io.EOF, errors.Is(err, ErrCut):
			if !until.IsZero() && until.After(m.Time) {
				return nil, fmt.Errorf("the recording ends at %s, before %s", m.Time.Local().Format(time.RFC3339), at)
			}
			return m, nil
		case err != nil:
			return nil, err
		case !until.IsZero() && e.Time.After(until):
			f.next = &e
			m.Time = until
			return m, nil
		}
		m.Apply(e)
	}
}

// find returns the time of a specification; the zero time is the end.
func (f *File) find(at string) (time.Time, error) {
	began := f.Header.Began
	switch {
	case at == "" || at == "end":
		return time.Time{}, nil
	case strings.HasPrefix(at, "+"), strings.HasPrefix(at, "-"):
		d, err := time.ParseDuration(at)
		if err != nil {
			return time.Time{}, fmt.Errorf("%q is not a time: after + and - there must be a duration, such as 90s", at)
		}
		if at[0] == '+' {
			return began.Add(d), nil
		}
		end, err := f.end()
		if err != nil {
			return time.Time{}, err
		}
		return f.within(at, end.Add(d))
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04"} {
		if t, err := time.ParseInLocation(layout, at, time.Local); err == nil {
			return f.within(at, t)
		}
	}
	for _, layout := range []string{"15:04:05.999999999", "15:04"} {
		if t, err := time.ParseInLocation(layout, at, time.Local); err == nil {
			day := began.Local()
			t = time.Date(day.Year(), day.Month(), day.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.Local)
			if t.Before(began.Truncate(time.Second)) {
				t = t.AddDate(0, 0, 1)
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 14:03:07, 2026-11-26T14:03:07Z, +90s, -5m or end", at)
}

// within returns a time, or an error if it is before the beginning.
func (f *File) within(at string, t time.Time) (time.Time, error) {
	if t.Before(f.Header.Began.Truncate(time.Second)) {
		return time.Time{}, fmt.Errorf("the recording begins at %s, after %s", f.Header.Began.Local().Format(time.RFC3339), at)
	}
	return t, nil
}

// end returns the time of the last entry.
func (f *File) end() (time.Time, error) {
	again, err := Open(f.file.Name())
	if err != nil {
		return time.Time{}, err
	}
	defer again.Close()
	last := again.Header.Began
	for {
		e, err := again.Next()
		switch {
		case err == io.EOF, errors.Is(err, ErrCut):
			return last, nil
		case err != nil:
			return time.Time{}, err
		}
		last = e.Time
	}
}
