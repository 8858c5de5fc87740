package validation

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/builtin/strategytest"
)

// kind is a kind with upstream's side.
type kind struct {
	*strategytest.Kind
	theirs strategytest.Side
}

// subresources returns the names of the subresources that both sides update, "" for the resource.
func (k *kind) subresources() []string {
	var names []string
	for name := range k.theirs.Strategies {
		if k.Ours.Strategies[name] != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// uncompared are the subresources with storages of their own, which are no strategies.
var uncompared = []string{"namespaces/finalize"}

// allKinds returns all kinds that we serve, each with upstream's strategies.
var allKinds = sync.OnceValues(func() ([]*kind, error) {
	ours, err := strategytest.Kinds()
	if err != nil {
		return nil, err
	}
	upstream := upstreamStrategies()
	var all []*kind
	for _, k := range ours {
		theirs := upstream[k.Resource.GroupResource()]
		if theirs == nil {
			return nil, fmt.Errorf("no strategies of upstream for %s", k.Resource)
		}
		group := k.Resource.Group
		scheme := upstreamScheme(group)
		all = append(all, &kind{k, strategytest.Side{Defaulter: scheme, Convertor: scheme,
			Hub: schema.GroupVersion{Group: group, Version: runtime.APIVersionInternal}, Strategies: theirs}})
	}
	return all, nil
})

// TestSubresources: each subresource of upstream with a strategy has one of ours, and the other way round.
func TestSubresources(t *testing.T) {
	all, err := allKinds()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		for name := range k.theirs.Strategies {
			if k.Ours.Strategies[name] == nil && !slices.Contains(uncompared, k.Name+"/"+name) {
				t.Errorf("%s/%s has no strategy of ours", k.Name, name)
			}
		}
		for name := range k.Ours.Strategies {
			if k.theirs.Strategies[name] == nil {
				t.Errorf("%s/%s has no strategy of upstream", k.Name, name)
			}
		}
	}
}
