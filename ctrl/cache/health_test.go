package cache

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// expectCheck runs a check and compares its error with a substring; an empty one means no error.
func expectCheck(t *testing.T, c Cache, want string) {
	t.Helper()
	err := Check(c, 0)(httptest.NewRequest(http.MethodGet, "/", nil))
	switch {
	case want == "" && err != nil:
		t.Errorf("unhealthy: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestCheck(t *testing.T) {
	for name, opts := range map[string]Options{"own informers": {}, "custom informers": {NewInformer: toolscache.NewSharedIndexInformer}} {
		t.Run(name, func(t *testing.T) {
			withServer(t, func(t *testing.T, s *server) { testCheck(t, s, newTestCache(t, s, opts)) })
		})
	}
}

// testCheck checks a cache while its server loses and regains a kind.
func testCheck(t *testing.T, s *server, c *informerCache) {
	s.setMissing(true)
	expectCheck(t, c, "the cache is not started")
	if _, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- c.Start(ctx) }()
	synctest.Wait()
	expectCheck(t, c, "the cache is not up to date: ConfigMap v1 not synced, started at 2000-01-01T00:00:00Z (NotFound: ")
	s.setMissing(false)
	time.Sleep(time.Minute)
	expectCheck(t, c, "")

	// A broken watch fails the check only if it cannot be reopened.
	s.breakWatches("")
	synctest.Wait()
	expectCheck(t, c, "")
	time.Sleep(time.Minute)
	s.setMissing(true)
	s.breakWatches("")
	time.Sleep(DefaultGracePeriod - time.Second)
	expectCheck(t, c, "")
	time.Sleep(time.Minute)
	expectCheck(t, c, "ConfigMap v1 not watched since 2000-01-01T00:02:")
	expectCheck(t, c, "(NotFound: ")
	s.setMissing(false)
	time.Sleep(time.Minute)
	expectCheck(t, c, "")

	// An informer that is started now has the same grace period.
	s.setMissing(true)
	if _, err := c.GetInformer(t.Context(), &corev1.Node{}, BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	expectCheck(t, c, "")
	time.Sleep(DefaultGracePeriod + time.Second)
	expectCheck(t, c, "Node v1 not synced, started at ")
	s.setMissing(false)
	time.Sleep(time.Minute)
	expectCheck(t, c, "")

	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	expectCheck(t, c, "the cache has stopped")
}

// A server that closes every watch at once fails the check.
func TestCheckOfShortWatches(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		c := newTestCache(t, s, Options{})
		startCache(t, c)
		names(t, c)
		for end := time.Now().Add(DefaultGracePeriod + time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			s.breakWatches("")
		}
		expectCheck(t, c, "ConfigMap v1 not watched since ")
		time.Sleep(time.Minute)
		expectCheck(t, c, "")
	})
}

func TestCheckNamesNamespaces(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		namespaces := map[string]Config{}
		for _, n := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			namespaces[n] = Config{}
		}
		c := newTestCache(t, s, Options{DefaultNamespaces: namespaces})
		startCache(t, c)
		names(t, c)
		s.setMissing(true)
		s.breakWatches("")
		time.Sleep(DefaultGracePeriod + time.Minute)
		expectCheck(t, c, "ConfigMap v1 in a not watched since ")
		expectCheck(t, c, "; 2 more")
	})
}

// otherCache is a Cache that New did not make.
type otherCache struct{ Cache }

func (otherCache) WaitForCacheSync(ctx context.Context) bool { return ctx.Err() == nil }

func TestCheckOfOtherCache(t *testing.T) {
	expectCheck(t, otherCache{}, "")
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Check(otherCache{}, 0)(req.WithContext(ctx)); err == nil {
		t.Error("a cache that is not synced is healthy")
	}
}
