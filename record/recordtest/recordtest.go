// Package recordtest records clusters in tests.
package recordtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"flyball.dev/record"
)

// Start records a cluster to a file until the function stop is called, or the test ends. It returns when all objects of the
// cluster are recorded. It sets Options.Listed.
func Start(t testing.TB, config *rest.Config, o record.Options) (path string, stop func()) {
	t.Helper()
	listed := make(chan struct{})
	o.Listed = func(int) { close(listed) }
	cluster, header, err := record.NewCluster(t.Context(), config, o)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "recording")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := record.NewWriter(file, header)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cluster.Record(ctx, w) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, w.Close(), file.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-listed:
	case err := <-done:
		done <- err
		t.Fatal("the recorder has ended before all objects were recorded")
	}
	return path, stop
}
