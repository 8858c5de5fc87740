package storage

import (
	"context"
	"errors"
	"time"
)

// rewatchInterval is the time between attempts of Rewatch.
const rewatchInterval = time.Second

// Rewatch returns a watcher of all writes to path from now on. The caller has missed events, and has to read the records
// again. While the store fails, as without a connection to its medium, Rewatch tries again.
//
// Possible errors: ErrClosed, the error of the context.
func Rewatch(ctx context.Context, s Store, path string) (Watcher, error) {
	for {
		w, err := s.Watch(ctx, path, 0)
		if err == nil || errors.Is(err, ErrClosed) {
			return w, err
		}
		select {
		case <-time.After(rewatchInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
