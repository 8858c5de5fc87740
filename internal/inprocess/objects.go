package inprocess

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Sharer is a transport that may share the objects of an API server with its client.
type Sharer interface {
	// SharesObjects reports whether the client can be trusted not to change shared objects.
	SharesObjects() bool
}

// SharesObjects reports whether the API server of config shares its objects with watches that ask for that.
func SharesObjects(config *rest.Config) bool {
	s, ok := config.Transport.(Sharer)
	return ok && s.SharesObjects()
}

// EventReader is the body of a response to a watch that has objects instead of bytes.
type EventReader interface {
	// ReadEvents waits for the next events and returns them, at least one. The slice is valid until the next call. The caller owns the
	// objects but not what they refer to, which must not be changed. An error is one that Read of the body would return.
	ReadEvents() ([]watch.Event, error)
}

// EventWriter takes the events of a watch as objects. An object that is written must not be changed afterwards, nor anything that it
// refers to; the reader may set its fields.
type EventWriter interface {
	// Begin says that the response has objects instead of bytes. It is called before the header is written.
	Begin()
	// WriteEvent writes an event. It blocks while the reader is too far behind.
	WriteEvent(watch.Event)
}

// asks and eventWriter are keys in contexts.
type (
	asks        struct{}
	eventWriter struct{}
)

// AskForObjects returns a context for a watch of an API server that shares its objects. The body of the response may be an
// [EventReader].
func AskForObjects(ctx context.Context) context.Context { return context.WithValue(ctx, asks{}, true) }

// AsksForObjects reports whether a context is from [AskForObjects].
func AsksForObjects(ctx context.Context) bool { return ctx.Value(asks{}) != nil }

// WithEventWriter returns the context of a request to a server with the writer of its response.
func WithEventWriter(ctx context.Context, w EventWriter) context.Context {
	return context.WithValue(ctx, eventWriter{}, w)
}

// EventWriterFrom returns the writer of a context, or nil if there is none.
func EventWriterFrom(ctx context.Context) EventWriter {
	w, _ := ctx.Value(eventWriter{}).(EventWriter)
	return w
}
