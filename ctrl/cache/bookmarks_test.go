package cache

import (
	"context"
	"net/url"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
)

// Watches request bookmarks, unless the most specific setting is false.
func TestBookmarks(t *testing.T) {
	kind := func(enable *bool) map[client.Object]ByObject {
		return map[client.Object]ByObject{&corev1.ConfigMap{}: {EnableWatchBookmarks: enable}}
	}
	inNamespace := func(enable *bool) map[client.Object]ByObject {
		config := Config{EnableWatchBookmarks: enable}
		return map[client.Object]ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]Config{"a": config}}}
	}
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"by default":                 {Options{}, "true"},
		"disabled":                   {Options{DefaultEnableWatchBookmarks: new(false)}, ""},
		"disabled for the kind":      {Options{ByObject: kind(new(false))}, ""},
		"enabled for the kind":       {Options{DefaultEnableWatchBookmarks: new(false), ByObject: kind(new(true))}, "true"},
		"disabled for the namespace": {Options{ByObject: inNamespace(new(false))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				c.options.Mapper = mapper()
				cache, err := New(&rest.Config{Host: "http://server", Transport: s}, c.options)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- cache.Start(ctx) }()
				synctest.Wait()
				if err := cache.List(ctx, &corev1.ConfigMapList{}); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				watches := 0
				for _, r := range s.Requests() {
					q, err := url.ParseQuery(r.Query)
					if err != nil {
						t.Fatal(err)
					}
					if q.Get("watch") != "true" {
						continue
					}
					watches++
					if got := q.Get("allowWatchBookmarks"); got != c.want {
						t.Errorf("allowWatchBookmarks is %q, want %q", got, c.want)
					}
				}
				if watches == 0 {
					t.Error("there was no watch")
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
