package store

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"flyball.dev/ctrl/client"
)

// TestOddServers applies what no server should send: duplicates, versions that go back or are not
// numbers, objects without a UID or in a namespace of another scope, lists that do not end. No
// invariant depends on the server, and empty lists empty the store.
func TestOddServers(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(1, seed))
		oneOf := func(all ...string) string { return all[random.IntN(len(all))] }
		s := New(Sharing(random.IntN(3)))
		scopes := []*Scope{s.Scope("ns"), s.Scope(oneOf("", "other"))}
		s.add(s.indexes.labels, "app", labelValues("app"))
		version := func() string { return oneOf("", "0", "x", "-1", strconv.Itoa(random.IntN(20))) }
		random20 := func() uint64 { return random.Uint64N(20) }
		for range 200 {
			c := scopes[random.IntN(2)]
			obj := object(oneOf("a", "b", "c"), oneOf("", "u", "v"), 1)
			obj.Namespace, obj.ResourceVersion = oneOf("ns", "other", "third", ""), version()
			if app := oneOf("", "web", "db"); app != "" {
				obj.Labels = map[string]string{"app": app}
			}
			key := client.ObjectKeyFromObject(obj)
			switch random.IntN(14) {
			case 0, 1, 2, 3:
				c.Changed(obj)
			case 4:
				c.Deleted(obj)
			case 5:
				c.Begin()
			case 6:
				c.Begin()
				c.Listed(obj)
				c.Listed(obj.DeepCopyObject().(client.Object))
			case 7:
				c.Complete(obj.ResourceVersion)
			case 8:
				c.Progress(obj.ResourceVersion)
			case 9:
				c.Pack()
			case 10:
				s.Wrote(obj)
			case 11:
				s.Deleted(key, obj.UID, random20())
			case 12:
				s.Absent(key, random20())
			case 13:
				s.Invalidate(key, random20())
				s.InvalidateDeleted(key, obj.UID, random20())
			}
			s.Get(key, random.IntN(2) == 0)
		}
		for _, c := range scopes {
			c.Pack()
			c.Begin()
			c.Complete("100")
		}
		for _, w := range s.Watched() {
			if s.Covers(w.Key.Namespace) {
				t.Fatalf("seed %d: %v is left after empty lists", seed, w.Key)
			}
		}
	}
}
