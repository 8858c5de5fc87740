package controlplane_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// outage is a storage that can be out of reach, as an etcd cluster.
type outage struct {
	storage.Store
	down atomic.Bool
}

var errDown = errors.New("the storage is out of reach")

func (o *outage) Revisions(ctx context.Context) (latest, oldest uint64, err error) {
	if o.down.Load() {
		return 0, 0, errDown
	}
	return o.Store.Revisions(ctx)
}

func (o *outage) Get(ctx context.Context, key string) (*storage.Record, error) {
	if o.down.Load() {
		return nil, errDown
	}
	return o.Store.Get(ctx, key)
}

func (o *outage) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	if o.down.Load() {
		return storage.Page{}, errDown
	}
	return o.Store.Range(ctx, q)
}

func (o *outage) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	if o.down.Load() {
		return nil, errDown
	}
	return o.Store.Put(ctx, w)
}

func (o *outage) Delete(ctx context.Context, key string, revision uint64) (*storage.Record, error) {
	if o.down.Load() {
		return nil, errDown
	}
	return o.Store.Delete(ctx, key, revision)
}

func (o *outage) Commit(ctx context.Context, writes []storage.Write) ([]*storage.Record, error) {
	if o.down.Load() {
		return nil, errDown
	}
	return o.Store.Commit(ctx, writes)
}

func (o *outage) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	if o.down.Load() {
		return nil, errDown
	}
	w, err := o.Store.Watch(ctx, path, after)
	if err == nil && strings.Contains(path, "role") {
		w = &outageWatcher{w, o}
	}
	return w, err
}

// outageWatcher is a watcher of roles or bindings that has missed events in an outage, so that authorization needs the
// storage.
type outageWatcher struct {
	storage.Watcher
	storage *outage
}

func (w *outageWatcher) Next() ([]*storage.Event, uint64, error) {
	if w.storage.down.Load() {
		return nil, 0, storage.ErrCompacted
	}
	return w.Watcher.Next()
}

// TestControllersOutliveAnOutage checks that the controllers of a shared storage run again after an outage in which they
// have lost their Lease.
func TestControllersOutliveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outage{Store: memory.New(memory.Options{})}
		plane, err := controlplane.Start(t.Context(), controlplane.Options{Storage: store, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		client := kubernetes.NewForConfigOrDie(plane.Config())
		replicas := func(d *appsv1.Deployment) int32 {
			t.Helper()
			d, err := client.AppsV1().Deployments("default").Get(t.Context(), d.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return d.Status.ReadyReplicas
		}
		create := func(name string) {
			t.Helper()
			d := controlplanetest.ExampleDeployment()
			d.Name = name
			d, err := client.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if got := replicas(d); got != *d.Spec.Replicas {
				t.Errorf("%s has %d replicas, want %d", name, got, *d.Spec.Replicas)
			}
		}
		create("before")
		store.down.Store(true)
		time.Sleep(time.Minute)
		store.down.Store(false)
		create("after")
	})
}
