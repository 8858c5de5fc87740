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
	a.keep(key("old"), "10.0.0.2")
	a.keep(key("twin"), "10.0.0.2")
	a.keep(key("far"), "10.0.1.2")
	a.keep(key("broken"), "none")
	for _, step := range []struct{ give, want, release, again string }{
		{give: "old", want: "10.0.0.2"},
		{give: "x", want: "10.0.0.1"},
		{give: "x", want: "10.0.0.1"},
		{give: "twin", want: "10.0.0.3"},
		{give: "a", want: "10.0.0.4"},
		{release: "x"}, // there are some that were never given
		{give: "b", want: "10.0.0.5"},
		{give: "c", want: "10.0.0.6"},
		{give: "d", want: "10.0.0.1"},
		{give: "e", want: ""},
		{give: "e", want: ""},
		{give: "f", want: ""},
		{give: "g", want: ""},
		{release: "f"}, // waits no more; nothing is free
		{release: "stranger"},
		{release: "a", again: "e"},
		{release: "b", again: "g"},
		{give: "g", want: "10.0.0.4"},
		{give: "h", want: "10.0.0.5"}, // before e has come again
		{give: "e", want: ""},
		{release: "old", again: "e"},
		{release: "e"}, // deleted before it came; nobody waits
		{give: "i", want: "10.0.0.2"},
	} {
		if step.give != "" {
			if got := a.give(key(step.give)); got != step.want {
				t.Errorf("%+v: got %q", step, got)
			}
			continue
		}
		if got, ok := a.release(key(step.release)); got.Name != step.again || ok != (step.again != "") {
			t.Errorf("%+v: got %v, %v", step, got, ok)
		}
	}
}

// TestAWokenPodThatIsDeletedPassesItOn: an address that is free wakes somebody as long as anybody waits.
func TestAWokenPodThatIsDeletedPassesItOn(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("10.0.0.0/30"))
	for _, n := range []string{"a", "b", "c", "d"} {
		a.give(key(n))
	}
	if again, ok := a.release(key("a")); !ok || again.Name != "c" {
		t.Fatalf("woke %v, %v", again, ok)
	}
	if again, ok := a.release(key("c")); !ok || again.Name != "d" {
		t.Errorf("woke %v, %v", again, ok)
	}
}

// TestWaitingPodsAreForgotten: pods that are deleted while the network is exhausted leave nothing behind.
func TestWaitingPodsAreForgotten(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("10.0.0.0/30"))
	for _, n := range []string{"a", "b"} {
		a.give(key(n))
	}
	for i := range 1000 {
		pod := key(strconv.Itoa(i))
		if ip := a.give(pod); ip != "" {
			t.Fatalf("got %s from an exhausted network", ip)
		}
		a.release(pod)
	}
	if n := a.waiting.order.Len(); n > 0 {
		t.Errorf("%d pods are still in the queue", n)
	}
}

// TestAddressesAgainstModel compares with a plain set: no address is given twice, none is refused while
// one is free, and a quarter of the pods is there from the start.
func TestAddressesAgainstModel(t *testing.T) {
	network := netip.MustParsePrefix("10.0.0.0/19")
	const room = 1<<13 - 2
	a, random := newAddresses(network), rand.New(rand.NewPCG(1, 2))
	has, taken := map[string]string{}, map[string]string{}
	for i := range room / 4 {
		ip, pod := fmt.Sprintf("10.0.%d.%d", random.IntN(31), 1+random.IntN(250)), "kept"+strconv.Itoa(i)
		a.keep(key(pod), ip)
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
		ip := a.give(key(pod))
		switch {
		case has[pod] != "":
			if ip != has[pod] {
				t.Fatalf("%d: %s has %s and then %s", i, pod, has[pod], ip)
			}
		case ip == "":
			if len(has) < room {
				t.Fatalf("%d: none is free for %s, with %d of %d taken", i, pod, len(has), room)
			}
		case taken[ip] != "":
			t.Fatalf("%d: %s is given to %s and %s", i, ip, taken[ip], pod)
		case !network.Contains(netip.MustParseAddr(ip)):
			t.Fatalf("%d: %s is outside", i, ip)
		default:
			has[pod], taken[ip] = ip, pod
		}
	}
	if len(has) < room*3/4 {
		t.Errorf("only %d of %d were taken at the end", len(has), room)
	}
}

// TestManyAddresses gives more than a /16 has.
func TestManyAddresses(t *testing.T) {
	a := newAddresses(DefaultNetwork)
	seen := map[string]bool{}
	for i := range 100_000 {
		ip := a.give(key(strconv.Itoa(i)))
		if ip == "" || seen[ip] {
			t.Fatalf("pod %d has the address %q", i, ip)
		}
		seen[ip] = true
	}
}

// BenchmarkAddresses measures a release and the allocation that follows it, with a million taken.
func BenchmarkAddresses(b *testing.B) {
	for _, network := range []string{"10.128.0.0/9", "10.128.0.0/12"} { // the second is then full
		b.Run(network, func(b *testing.B) {
			const taken = 1<<20 - 2
			a := newAddresses(netip.MustParsePrefix(network))
			keys := make([]types.NamespacedName, taken)
			for i := range keys {
				keys[i] = types.NamespacedName{Namespace: "default", Name: strconv.Itoa(i)}
				if a.give(keys[i]) == "" {
					b.Fatal("full")
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				k := keys[i%taken]
				a.release(k)
				if a.give(k) == "" {
					b.Fatal("full")
				}
			}
		})
	}
}
