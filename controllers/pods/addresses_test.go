package pods

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func key(n string) types.NamespacedName { return types.NamespacedName{Name: n} }

func TestAddresses(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("10.0.0.0/29")) // 1 to 6
	a.occupy(key("old"), "10.0.0.2", netip.Prefix{})
	a.occupy(key("twin"), "10.0.0.2", netip.Prefix{})
	a.occupy(key("far"), "10.0.1.2", netip.Prefix{})
	a.occupy(key("broken"), "none", netip.Prefix{})
	for _, step := range []struct{ allocate, want, release, again string }{
		{allocate: "old", want: "10.0.0.2"},
		{allocate: "x", want: "10.0.0.1"},
		{allocate: "x", want: "10.0.0.1"},
		{allocate: "twin", want: "10.0.0.3"},
		{allocate: "a", want: "10.0.0.4"},
		{release: "x"}, // some were never allocated
		{allocate: "b", want: "10.0.0.5"},
		{allocate: "c", want: "10.0.0.6"},
		{allocate: "d", want: "10.0.0.1"},
		{allocate: "e", want: ""},
		{allocate: "e", want: ""},
		{allocate: "f", want: ""},
		{allocate: "g", want: ""},
		{release: "f"}, // waits no longer; none is free
		{release: "stranger"},
		{release: "a", again: "e"},
		{release: "b", again: "g"},
		{allocate: "g", want: "10.0.0.4"},
		{allocate: "h", want: "10.0.0.5"}, // before e calls it again
		{allocate: "e", want: ""},
		{release: "old", again: "e"},
		{release: "e"}, // deleted before it called again; no other pod waits
		{allocate: "i", want: "10.0.0.2"},
	} {
		if step.allocate != "" {
			if got := a.allocate(key(step.allocate), netip.Prefix{}); got != step.want {
				t.Errorf("%+v: got %q", step, got)
			}
			continue
		}
		if got, ok := a.release(key(step.release)); got.Name != step.again || ok != (step.again != "") {
			t.Errorf("%+v: got %v, %v", step, got, ok)
		}
	}
}

// TestReturnedPodIsDeleted: as long as an address is free and pods wait, release returns another
// one.
func TestReturnedPodIsDeleted(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("10.0.0.0/30"))
	for _, n := range []string{"a", "b", "c", "d"} {
		a.allocate(key(n), netip.Prefix{})
	}
	if again, ok := a.release(key("a")); !ok || again.Name != "c" {
		t.Fatalf("got %v, %v", again, ok)
	}
	if again, ok := a.release(key("c")); !ok || again.Name != "d" {
		t.Errorf("got %v, %v", again, ok)
	}
}

// TestReleaseAgain: an address that is released twice is free for one pod, the one that waited
// longest.
func TestReleaseAgain(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("10.0.0.0/30"))
	for _, n := range []string{"a", "b", "c", "d"} {
		a.allocate(key(n), netip.Prefix{})
	}
	if again, ok := a.release(key("a")); !ok || again.Name != "c" {
		t.Fatalf("got %v, %v", again, ok)
	}
	if again, ok := a.release(key("a")); ok {
		t.Errorf("released again: got %v", again)
	}
	if ip := a.allocate(key("c"), netip.Prefix{}); ip != "10.0.0.1" {
		t.Errorf("got the address %q", ip)
	}
}

// TestWaitingPodsAreRemoved: nothing is kept of pods that are deleted while the network is
// exhausted.
func TestWaitingPodsAreRemoved(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("10.0.0.0/30"))
	for _, n := range []string{"a", "b"} {
		a.allocate(key(n), netip.Prefix{})
	}
	for i := range 1000 {
		pod := key(strconv.Itoa(i))
		if ip := a.allocate(pod, netip.Prefix{}); ip != "" {
			t.Fatalf("got %s from an exhausted network", ip)
		}
		a.release(pod)
	}
	if n := a.waiting.order.Len(); n > 0 {
		t.Errorf("%d pods are still in the queue", n)
	}
}

// TestAddressesAgainstModel compares with a plain set: no address is allocated twice, none is
// refused while one is free, and a quarter of the pods have one at the start.
func TestAddressesAgainstModel(t *testing.T) {
	network := netip.MustParsePrefix("10.0.0.0/19")
	const room = 1<<13 - 2
	a, random := newAddresses(network), rand.New(rand.NewPCG(1, 2))
	has, taken := map[string]string{}, map[string]string{}
	for i := range room / 4 {
		ip, pod := fmt.Sprintf("10.0.%d.%d", random.IntN(31), 1+random.IntN(250)), "initial"+strconv.Itoa(i)
		a.occupy(key(pod), ip, netip.Prefix{})
		if taken[ip] == "" {
			has[pod], taken[ip] = ip, pod
		}
	}
	for i := range 200_000 {
		pod := strconv.Itoa(random.IntN(2 * room))
		if random.IntN(3) == 0 {
			a.release(key(pod))
			delete(taken, has[pod])
			delete(has, pod)
			continue
		}
		ip := a.allocate(key(pod), netip.Prefix{})
		switch {
		case has[pod] != "":
			if ip != has[pod] {
				t.Fatalf("%d: %s has %s and then %s", i, pod, has[pod], ip)
			}
		case ip == "":
			if len(has) < room {
				t.Fatalf("%d: none is free for %s, with %d of %d allocated", i, pod, len(has), room)
			}
		case taken[ip] != "":
			t.Fatalf("%d: %s is allocated to %s and %s", i, ip, taken[ip], pod)
		case !network.Contains(netip.MustParseAddr(ip)):
			t.Fatalf("%d: %s is outside", i, ip)
		default:
			has[pod], taken[ip] = ip, pod
		}
	}
	for ip, pod := range taken {
		if got, ok := a.owner(ip); !ok || got != key(pod) {
			t.Errorf("%s has the owner %s, want %s", ip, got, pod)
		}
	}
	if a.owners.len != len(taken) {
		t.Errorf("%d addresses have an owner, want %d", a.owners.len, len(taken))
	}
	if len(has) < room*3/4 {
		t.Errorf("only %d of %d were allocated at the end", len(has), room)
	}
}

// TestManyAddresses allocates more addresses than a /16 has.
func TestManyAddresses(t *testing.T) {
	a := newAddresses(DefaultNetwork)
	seen := map[string]bool{}
	for i := range 100_000 {
		ip := a.allocate(key(strconv.Itoa(i)), netip.Prefix{})
		if ip == "" || seen[ip] {
			t.Fatalf("pod %d has the address %q", i, ip)
		}
		seen[ip] = true
	}
}

// BenchmarkAddresses measures a release and the allocation that follows it, with a million
// allocated.
func BenchmarkAddresses(b *testing.B) {
	for _, network := range []string{"10.128.0.0/9", "10.128.0.0/12"} { // the second is then full
		b.Run(network, func(b *testing.B) {
			const taken = 1<<20 - 2
			a := newAddresses(netip.MustParsePrefix(network))
			keys := make([]types.NamespacedName, taken)
			for i := range keys {
				keys[i] = types.NamespacedName{Namespace: "default", Name: strconv.Itoa(i)}
				if a.allocate(keys[i], netip.Prefix{}) == "" {
					b.Fatal("full")
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				k := keys[i%taken]
				a.release(k)
				if a.allocate(k, netip.Prefix{}) == "" {
					b.Fatal("full")
				}
			}
		})
	}
}
