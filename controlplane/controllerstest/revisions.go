package controllerstest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"

	"flyball.dev/ctrl/client"
)

// Revisions counts the revisions of objects in each namespace. A namespace is in itself.
type Revisions struct {
	watches []watch.Interface
	done    sync.WaitGroup
	looping chan struct{} // closed when there are far too many

	mu    sync.Mutex
	loops bool
	of    map[string]map[string]int // by namespace and kind
}

// CountRevisions watches the objects of all kinds.
func (e Env) CountRevisions() *Revisions {
	e.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(e.Plane.Config())
	e.Must(err)
	_, lists, err := d.ServerGroupsAndResources()
	e.Must(err)
	r := &Revisions{looping: make(chan struct{}), of: map[string]map[string]int{}}
	seen := map[string]bool{"Event.events.k8s.io": true} // they are the events of the core group
	for _, list := range lists {
		for _, kind := range list.APIResources {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			e.Must(err)
			gvk := gv.WithKind(kind.Kind)
			if !slices.Contains(kind.Verbs, "watch") || seen[gvk.GroupKind().String()] {
				continue
			}
			seen[gvk.GroupKind().String()] = true
			objects := &metav1.PartialObjectMetadataList{}
			objects.SetGroupVersionKind(gv.WithKind(kind.Kind + "List"))
			e.Must(e.List(e.Context(), objects))
			w, err := e.Watch(e.Context(), objects, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: objects.ResourceVersion}})
			e.Must(err)
			r.watches = append(r.watches, w)
			r.done.Go(func() { r.count(kind.Kind, w) })
		}
	}
	return r
}

// count counts the events of a watch.
func (r *Revisions) count(kind string, w watch.Interface) {
	for event := range w.ResultChan() {
		o, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			continue
		}
		namespace := o.Namespace
		if kind == "Namespace" {
			namespace = o.Name
		}
		r.mu.Lock()
		if r.of[namespace] == nil {
			r.of[namespace] = map[string]int{}
		}
		if r.of[namespace][kind]++; r.of[namespace][kind] == 500 && !r.loops {
			r.loops = true
			close(r.looping)
		}
		r.mu.Unlock()
	}
}

// Wait waits for a time. It returns earlier if a controller loops, because then the fake time does not pass.
func (r *Revisions) Wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.looping:
	}
}

func (r *Revisions) Stop() {
	for _, w := range r.watches {
		w.Stop()
	}
	r.done.Wait()
}

func (r *Revisions) Namespaces() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.of))
}

// In returns the number of revisions of Events in a namespace, the number of all others, and their kinds.
func (r *Revisions) In(namespace string) (events, others int, kinds string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind, count := range r.of[namespace] {
		if kind == "Event" {
			events += count
		} else {
			others += count
		}
	}
	return events, others, fmt.Sprint(r.of[namespace])
}
