package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// hookedStore calls hooks, if they are not nil, before the methods of a storage.
type hookedStore struct {
	storage.Store
	onRange func()
	onClose func() error
}

func newHookedStore() *hookedStore { return &hookedStore{Store: memory.New(memory.Options{})} }

func (s *hookedStore) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	if s.onRange != nil {
		s.onRange()
	}
	return s.Store.Range(ctx, q)
}

func (s *hookedStore) Close() error {
	err := s.Store.Close()
	if s.onClose != nil {
		err = errors.Join(err, s.onClose())
	}
	return err
}

func ended(plane *controlplane.ControlPlane) bool {
	select {
	case <-plane.Done():
		return true
	default:
		return false
	}
}

func TestContextEndsControlPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		store := newHookedStore()
		store.onClose = func() error { closed++; return nil }
		ctx, cancel := context.WithCancelCause(t.Context())
		plane, err := controlplane.Start(ctx, controlplane.Options{Storage: store})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // virtual
		if ended(plane) || plane.Err() != nil {
			t.Fatalf("ended by itself: %v", plane.Err())
		}
		cancel(errors.New("SIGTERM"))
		<-plane.Done()
		if err := plane.Err(); err != nil || closed != 1 {
			t.Errorf("the error is %v, and the storage was closed %d times", err, closed)
		}
		if err := plane.Stop(); err != nil || closed != 1 {
			t.Errorf("Stop returned %v, and the storage was closed %d times", err, closed)
		}
	})
}

// TestStopConcurrently calls Stop from several goroutines while the context ends.
func TestStopConcurrently(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			failure := errors.New("cannot close")
			closed := 0
			store := newHookedStore()
			store.onClose = func() error { closed++; return failure }
			ctx, cancel := context.WithCancel(t.Context())
			plane, err := controlplane.Start(ctx, controlplane.Options{Storage: store})
			if err != nil {
				t.Fatal(err)
			}
			var group sync.WaitGroup
			group.Go(cancel)
			for range 8 {
				group.Go(func() {
					if err := plane.Stop(); !errors.Is(err, failure) {
						t.Errorf("Stop returned %v", err)
					}
					if !ended(plane) {
						t.Error("Stop returned before Done was closed")
					}
				})
			}
			group.Wait()
			if !errors.Is(plane.Err(), failure) || closed != 1 {
				t.Errorf("the error is %v, and the storage was closed %d times", plane.Err(), closed)
			}
		})
	}
}

func TestContextEndsDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		store := newHookedStore()
		store.onClose = func() error { closed++; return nil }
		ctx, cancel := context.WithCancel(t.Context())
		store.onRange = cancel
		plane, err := controlplane.Start(ctx, controlplane.Options{Storage: store})
		if plane != nil || !errors.Is(err, context.Canceled) || closed != 1 {
			t.Errorf("got %v, %v, and the storage was closed %d times", plane, err, closed)
		}
	})
}

// TestRequestInFlightFinishes blocks a request in the storage while the context ends.
func TestRequestInFlightFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		add := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		store := newHookedStore()
		store.onClose = func() error { add("closed"); return nil }
		ctx, cancel := context.WithCancel(t.Context())
		plane, err := controlplane.Start(ctx, controlplane.Options{Storage: store, WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		client := controlplanetest.ClientFor(t, plane.Config())
		release := make(chan struct{})
		store.onRange = func() { <-release; add("read") }
		responded := make(chan error, 1)
		go func() {
			_, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			responded <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if ended(plane) {
			t.Error("ended with a request in flight")
		}
		close(release)
		<-plane.Done()
		if err := <-responded; err != nil {
			t.Error(err)
		}
		// The server's own reads may come before the end, too.
		if want := []string{"read", "closed"}; !slices.Equal(slices.Compact(order), want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}

// TestManagerReleasesItsLease stops an operator as the documentation of Start recommends: the
// control plane ends after the manager, which can still release its lease.
func TestManagerReleasesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		mgr, err := manager.New(plane.Config(), manager.Options{
			LeaderElection: true, LeaderElectionID: "operator", LeaderElectionNamespace: metav1.NamespaceDefault,
			LeaderElectionReleaseOnCancel: true,
			Metrics:                       server.Options{BindAddress: "0"},
		})
		if err != nil {
			t.Fatal(err)
		}
		lease := func() *coordinationv1.Lease {
			l, err := controlplanetest.ClientFor(t, plane.Config()).CoordinationV1().Leases(metav1.NamespaceDefault).Get(t.Context(), "operator", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		go func() { returned <- mgr.Start(ctx) }()
		<-mgr.Elected()
		if ptr.Deref(lease().Spec.HolderIdentity, "") == "" {
			t.Error("the leader does not hold the lease")
		}
		cancel()
		if err := <-returned; err != nil {
			t.Error(err)
		}
		if holder := ptr.Deref(lease().Spec.HolderIdentity, ""); holder != "" {
			t.Errorf("%s still holds the lease", holder)
		}
		if _, err := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "after"},
		}, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// TestStartWithEndedContext: Start owns the storage even if there is nothing else to stop.
func TestStartWithEndedContext(t *testing.T) {
	closed := 0
	store := newHookedStore()
	store.onClose = func() error { closed++; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{Storage: store})
	if plane != nil || !errors.Is(err, context.Canceled) || closed != 1 {
		t.Errorf("got %v, %v, and the storage was closed %d times", plane, err, closed)
	}
}

// TestContextEndsWithWatches ends the context after several numbers of writes, with watches and writes
// in flight and while Stop is called: all of them end, and that is no error.
func TestContextEndsWithWatches(t *testing.T) {
	for number := range 20 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			plane, err := controlplane.Start(ctx, controlplane.Options{})
			if err != nil {
				t.Fatal(err)
			}
			configMaps := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps(metav1.NamespaceDefault)
			var group sync.WaitGroup
			var writes atomic.Int64
			reached := make(chan struct{})
			reach := sync.OnceFunc(func() { close(reached) })
			for i := range 8 {
				group.Go(func() {
					o := metav1.ListOptions{}
					if i%2 == 0 { // a list in the form of a watch
						o.SendInitialEvents, o.AllowWatchBookmarks = ptr.To(true), true
						o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
					}
					w, err := configMaps.Watch(context.Background(), o)
					if err != nil {
						return
					}
					for range w.ResultChan() {
					}
				})
				group.Go(func() {
					defer reach() // if a write fails
					for n := 0; ; n++ {
						cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d-%d", i, n)}}
						if _, err := configMaps.Create(context.Background(), cm, metav1.CreateOptions{}); err != nil {
							return
						}
						if writes.Add(1) == int64(number*number) {
							reach()
						}
					}
				})
			}
			group.Go(func() {
				if number > 0 {
					<-reached
				}
				cancel()
				if err := plane.Stop(); err != nil {
					t.Error(err)
				}
			})
			group.Wait()
			if err := plane.Err(); err != nil || !ended(plane) {
				t.Errorf("ended: %t, with %v", ended(plane), err)
			}
		})
	}
}

// TestNodeIsReadyAtOnce: the node exists, and is ready, when Start returns.
func TestNodeIsReadyAtOnce(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{})
	node, err := controlplanetest.ClientFor(t, plane.Config()).CoreV1().Nodes().Get(t.Context(), pods.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if !slices.ContainsFunc(node.Status.Conditions, ready) || len(node.Spec.Taints) > 0 {
		t.Errorf("the node is %+v", node)
	}
}
