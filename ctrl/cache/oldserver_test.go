package cache

import (
	"context"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// From a server without streaming lists the first list is requested with resource version 0, which
// its watch cache serves.
func TestServerWithoutWatchLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.NoWatchList = true
		s.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}})
		c, err := New(&rest.Config{Host: "http://server", Transport: s}, Options{Mapper: mapper()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Start(ctx) }()
		synctest.Wait()
		var list corev1.ConfigMapList
		if err := c.List(ctx, &list); err != nil || len(list.Items) != 1 {
			t.Errorf("%d objects, %v", len(list.Items), err)
		}
		synctest.Wait()
		var versions []string
		for _, r := range s.Requests() {
			if q, _ := url.ParseQuery(r.Query); q.Get("sendInitialEvents") == "" {
				versions = append(versions, q.Get("watch")+" "+q.Get("resourceVersion"))
			}
		}
		if want := []string{" 0", "true 2"}; !slices.Equal(versions, want) {
			t.Errorf("the requests have the resource versions %q, want %q", versions, want)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
