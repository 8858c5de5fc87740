package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/internal/canonical"
	"flyball.dev/record"
)

// Between returns the changes between two moments of a cluster as a plan shows them, without their authors, in the order of their
// resources and names. Times since a time are unknown. Events, Leases, IPAddresses and the API server's own objects are left out. It tells
// whether a cluster did what a plan has said.
func Between(before, after *record.Moment, since time.Time) ([]Change, error) {
	all := map[record.Key]*folded{}
	names, objects := map[string]string{}, []*unstructured.Unstructured{}
	for _, m := range []*record.Moment{before, after} {
		for key, content := range m.Objects {
			if isRecord(key.GroupResource()) {
				continue
			}
			o := &unstructured.Unstructured{}
			if err := utiljson.Unmarshal(content, &o.Object); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			f := all[key]
			if f == nil {
				f = &folded{}
				all[key] = f
			}
			if m == before {
				f.before = o
			} else {
				f.after = o
			}
			if f.before == nil {
				addNames(names, o)
				objects = append(objects, o)
			}
		}
	}
	form := canonical.New(slices.Values(objects), names)
	var changes []Change
	for _, key := range slices.SortedFunc(maps.Keys(all), compareKeys) {
		f := all[key]
		v := &values{form: form, kind: canonical.Kind(f.last()), began: since}
		if c, ok := v.change(f); ok {
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// isRecord reports whether the objects of a resource are no state of the cluster.
func isRecord(r schema.GroupResource) bool {
	switch r.Group {
	case "", "events.k8s.io":
		return r.Resource == "events"
	case "networking.k8s.io":
		return r.Resource == "ipaddresses" // they follow from the Services
	case "coordination.k8s.io", "apiregistration.k8s.io", "metrics.k8s.io":
		return true
	}
	return false
}
