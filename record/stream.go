package record

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// page is how many objects a response to a list has.
	page = 500
	// firstRetry and lastRetry bound the time between two attempts to list or watch.
	firstRetry, lastRetry = 200 * time.Millisecond, 30 * time.Second
)

// stream records one resource.
type stream struct {
	cluster  *Cluster
	resource *Resource
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has returned

	// firstList is closed when the objects were listed, or the first attempt was refused, for the reason refused.
	firstList chan struct{}
	refused   error

	// known has the objects that were recorded and not deleted.
	known   map[Key]version
	listed  bool   // all objects were recorded once
	version string // the resource version up to which all changes are recorded; empty if the objects must be listed
}

// version identifies a state of an object.
type version struct{ uid, version string }

// run records until ctx ends. It returns an error if the recording cannot be written.
func (s *stream) run(ctx context.Context) error {
	for delay := firstRetry; ctx.Err() == nil; {
		began := time.Now()
		err := s.follow(ctx)
		if broken, ok := errors.AsType[*writeError](err); ok {
			return broken.err
		}
		if ctx.Err() != nil || err == nil {
			continue // the watch has ended as it should
		}
		s.report(err)
		if time.Since(began) > lastRetry {
			delay = firstRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay/2 + rand.N(delay)):
		}
		delay = min(2*delay, lastRetry)
	}
	return nil
}

// writeError is an error of the recording, not of the cluster.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

// report tells the reason for which the objects cannot be read.
func (s *stream) report(err error) {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || isGone(err) {
		s.cluster.notice(fmt.Sprintf("%s cannot be recorded: %v", s.resource.GroupResource(), err))
	} else {
		s.cluster.notice(fmt.Sprintf("%s: %v; trying again", s.resource.GroupResource(), err))
	}
	if !s.listed && s.refused == nil {
		s.refused = err
		_ = s.cluster.out.Write(Entry{Type: Missing, Resource: s.resource, Text: err.Error()})
		close(s.firstList)
	}
}

// follow lists the objects if necessary, and watches them until the watch ends.
func (s *stream) follow(ctx context.Context) error {
	if s.version == "" {
		if err := s.list(ctx); err != nil {
			return err
		}
	}
	err := s.watch(ctx)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		s.version = ""
		if err := s.write(Entry{Type: Lost, Resource: s.resource}); err != nil {
			return err
		}
		return nil
	}
	return err
}

// write writes an entry.
func (s *stream) write(e Entry) error {
	if e.Object != nil {
		var err error
		if e.Object, err = s.cluster.options.Redactor.Redact(s.resource.GroupResource(), e.Object); err != nil {
			return fmt.Errorf("an object that cannot be redacted: %w", err)
		}
		s.cluster.changes.Add(1)
	}
	if err := s.cluster.out.Write(e); err != nil {
		return &writeError{err}
	}
	return nil
}

// list records all objects, and the differences to what was recorded before.
func (s *stream) list(ctx context.Context) error {
	select {
	case s.cluster.slots <- struct{}{}:
		defer func() { <-s.cluster.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	found := map[Key]version{}
	defer func() {
		if s.version == "" {
			maps.Copy(s.known, found) // they are recorded, although the list has failed
		}
	}()
	var at string
	for next := ""; ; {
		request := s.cluster.client.Get().AbsPath(s.resource.path()).Param("limit", strconv.Itoa(page))
		if next != "" {
			request.Param("continue", next)
		}
		body, err := get(ctx, request)
		if err != nil {
			return err
		}
		meta, err := parseMetadata(body)
		if err != nil {
			return err
		}
		var items []byte
		if err := members(body, func(name string, value []byte) bool {
			if name == "items" {
				items = value
			}
			return items == nil
		}); err != nil {
			return err
		}
		if len(items) > 0 && items[0] == '[' {
			if err := elements(items, func(object []byte) error { return s.exists(object, found) }); err != nil {
				return err
			}
		}
		at, next = meta.version, meta.continues
		if next == "" {
			break
		}
	}
	for key := range s.known {
		if _, ok := found[key]; !ok {
			if err := s.write(Entry{Type: Deleted, Resource: s.resource, Namespace: key.Namespace, Name: key.Name}); err != nil {
				return err
			}
		}
	}
	if err := s.write(Entry{Type: Listed, Resource: s.resource}); err != nil {
		return err
	}
	if !s.listed && s.refused == nil {
		close(s.firstList)
	}
	s.known, s.listed, s.version = found, true, at
	if s.definesResources() {
		s.cluster.changed()
	}
	return nil
}

// exists records an object of a list.
func (s *stream) exists(object []byte, found map[Key]version) error {
	meta, err := parseMetadata(object)
	if err != nil {
		return err
	}
	if !meta.typed { // lists of built-in kinds leave it out
		object = append(fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, s.resource.Kind, s.resource.GroupVersion().String()), bytes.TrimLeft(object, "{ \n")...)
	}
	key := Key{s.resource.Group, s.resource.Name, meta.namespace, meta.name}
	now := version{meta.uid, meta.version}
	found[key] = now
	e := Entry{Type: Exists, Resource: s.resource, Namespace: meta.namespace, Name: meta.name, Object: object}
	before, known := s.known[key]
	switch {
	case !known && s.listed:
		e.Type = Added
	case !known:
	case before == now:
		return nil
	case before.uid == now.uid:
		e.Type = Modified
	default:
		e.Type = Added
		if err := s.write(Entry{Type: Deleted, Resource: s.resource, Namespace: key.Namespace, Name: key.Name}); err != nil {
			return err
		}
	}
	return s.write(e)
}

// watch records changes until the watch ends.
func (s *stream) watch(ctx context.Context) error {
	body, err := s.cluster.client.Get().AbsPath(s.resource.path()).Param("watch", "1").Param("allowWatchBookmarks", "true").
		Param("resourceVersion", s.version).Param("timeoutSeconds", strconv.Itoa(300+rand.IntN(300))).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewReaderSize(body, 64<<10)
	var frame []byte
	for {
		part, err := lines.ReadSlice('\n')
		frame = append(frame, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(bytes.TrimSpace(frame)) == 0:
			return nil
		case err != nil:
			return err
		}
		err = s.event(frame)
		if err == errEnd {
			continue // the frame has several lines
		}
		if err != nil {
			return err
		}
		frame = frame[:0]
	}
}

// event records the event of a frame.
func (s *stream) event(frame []byte) error {
	if len(bytes.TrimSpace(frame)) == 0 {
		return nil
	}
	var event string
	var object []byte
	if err := members(frame, func(name string, value []byte) bool {
		switch name {
		case "type":
			event = text(value)
		case "object":
			object = value
		}
		return true
	}); err != nil {
		return err
	}
	if event == "ERROR" {
		var status metav1.Status
		if err := json.Unmarshal(object, &status); err != nil {
			return err
		}
		return apierrors.FromObject(&status)
	}
	meta, err := parseMetadata(object)
	if err != nil {
		return err
	}
	key := Key{s.resource.Group, s.resource.Name, meta.namespace, meta.name}
	e := Entry{Resource: s.resource, Namespace: meta.namespace, Name: meta.name, Object: object}
	switch event {
	case "ADDED":
		e.Type = Added
	case "MODIFIED":
		e.Type = Modified
	case "DELETED":
		e.Type = Deleted
	case "BOOKMARK":
		s.version = meta.version
		return nil
	default:
		return fmt.Errorf("an event of the unknown type %q", event)
	}
	if err := s.write(e); err != nil {
		return err
	}
	if e.Type == Deleted {
		delete(s.known, key)
	} else {
		s.known[key] = version{meta.uid, meta.version}
	}
	s.version = meta.version
	if s.definesResources() {
		s.cluster.changed()
	}
	return nil
}

// definesResources reports whether objects of the stream say what the cluster serves.
func (s *stream) definesResources() bool {
	r := s.resource.GroupResource()
	return r == definitions || r == services
}
