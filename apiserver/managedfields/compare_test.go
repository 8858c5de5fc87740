package managedfields

import (
	"math/rand"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// TestComparisons compares the comparisons of objects of all kinds with those by their schemas.
func TestComparisons(t *testing.T) {
	const rounds = 8
	objects, words := randomObjects(7), rand.New(rand.NewSource(8))
	supported, all := 0, comparisons(t)
	for _, r := range all {
		u, ok := r.updater.(*typedUpdater)
		if !ok || u.root() == nil {
			continue
		}
		for range rounds {
			h := &history{comparison: r, t: t, objects: objects, words: words}
			h.stored = h.random()
			old, now := h.stored.(metav1.Object), h.changed().(metav1.Object)
			if words.Intn(4) == 0 {
				now = h.random().(metav1.Object)
			}
			if words.Intn(2) == 0 {
				old, now = now, old
			}
			got, ok := compareValues(u.root(), reflect.ValueOf(old).Elem(), reflect.ValueOf(now).Elem())
			want, err := u.compareBySchema(old, now)
			if !ok || err != nil {
				continue
			}
			supported++
			if !sameComparison(got, want) {
				t.Fatalf("%s: got\n%swant\n%s", h.gvk, got, want)
			}
		}
	}
	t.Logf("%d of %d comparisons supported", supported, rounds*len(all))
	if supported < rounds*len(all)/4 {
		t.Error("too few")
	}
}

func sameComparison(a, b *typed.Comparison) bool {
	return a.Removed.Equals(b.Removed) && a.Modified.Equals(b.Modified) && a.Added.Equals(b.Added)
}
