package crd_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/apiserver/resource"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// faulty is a store that fails writes below path unless path is empty.
type faulty struct {
	storage.Store
	path atomic.Pointer[string]
}

var errFault = errors.New("disk on fire")

func (f *faulty) fail(path string) { f.path.Store(&path) }

func (f *faulty) broken(key string) bool {
	path := f.path.Load()
	return path != nil && *path != "" && strings.HasPrefix(key, *path)
}

func (f *faulty) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	if f.broken(w.Key) {
		return nil, errFault
	}
	return f.Store.Put(ctx, w)
}

func (f *faulty) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	if f.broken(key) {
		return nil, errFault
	}
	return f.Store.Delete(ctx, key, revision)
}

func newFaulty(t *testing.T) (*faulty, *server) {
	f := &faulty{Store: memory.New(memory.Options{})}
	return f, newServerOn(t, f, &resource.Catalog{})
}

func TestFailedWriteHasNoEffect(t *testing.T) {
	f, s := newFaulty(t)
	f.fail("/registry/apiextensions.k8s.io/")
	s.refused(500, []string{"disk on fire"}, "POST", definitionsPath, minimal)
	if _, served := s.catalog.Snapshot().Lookup(widgets); served {
		t.Error("a definition that could not be stored is served")
	}
	f.fail("")
	s.define(minimal)

	f.fail("/registry/apiextensions.k8s.io/")
	before, _ := s.catalog.Snapshot().Lookup(widgets)
	s.refused(500, []string{"disk on fire"}, "PATCH", widgetDefinition,
		`[{"op":"add","path":"/spec/names/categories","value":["more"]}]`, jsonPatch...)
	if after, _ := s.catalog.Snapshot().Lookup(widgets); after != before {
		t.Error("a change that could not be stored is served")
	}
	s.refused(500, []string{"disk on fire"}, "DELETE", widgetDefinition, "")
	s.want(201, "POST", widgetsPath, widget("a"))
}

func TestCleanupRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFaulty(t)
		s.define(minimal)
		s.want(201, "POST", widgetsPath, widget("a"))
		f.fail("/registry/example.com/widgets/")
		s.want(200, "DELETE", widgetDefinition, "")
		synctest.Wait()
		crd := &unstructured.Unstructured{Object: s.want(200, "GET", widgetDefinition, "").object}
		if got := condition(crd, "Terminating"); got != "True InstanceDeletionFailed" {
			t.Errorf("Terminating: %q", got)
		}
		f.fail("")
		time.Sleep(time.Minute)
		s.want(404, "GET", widgetDefinition, "")
		s.want(404, "GET", widgetsPath, "")
	})
}
