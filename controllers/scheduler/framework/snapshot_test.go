package framework

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// TestSnapshotAgainstModel replays a random history, and compares the snapshot with one that is made from the same nodes and pods.
func TestSnapshotAgainstModel(t *testing.T) {
	random, s := rand.New(rand.NewPCG(1, 2)), NewSnapshot()
	nodes, pods := map[string]*corev1.Node{}, map[types.UID]*corev1.Pod{}
	const anti = `affinity: {podAntiAffinity: {` + required + `: [{` + host + `, ` + selector + `}]}}, `
	for step := range 4000 {
		name := fmt.Sprint("n", random.IntN(4))
		i := random.IntN(30)
		p := newTestPod(t, fmt.Sprint("p", i), name, `{`+[]string{"", anti}[random.IntN(2)]+
			`containers: [{name: c, ports: [{containerPort: 1, hostPort: `+fmt.Sprint(80+i)+`}], resources: {requests: {cpu: `+fmt.Sprint(random.IntN(3))+`, example.com/x: 1}}}],
			volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}`)
		p.Labels["app"] = []string{"web", "db"}[random.IntN(2)]
		switch random.IntN(6) {
		case 0:
			n := newNode(t, name, "z", "{}")
			n.Status.Images = []corev1.ContainerImage{{Names: []string{fmt.Sprint("i", random.IntN(3))}, SizeBytes: 5}}
			nodes[name] = n
			s.SetNode(n)
		case 1:
			delete(nodes, name)
			s.RemoveNode(name)
		case 2:
			delete(pods, p.UID)
			s.RemovePod(p.UID)
		default:
			pods[p.UID] = p
			s.SetPod(p)
		}
		s.countSelected("default", labels.SelectorFromSet(labels.Set{"app": "web"})) // made once, and then kept up to date
		if step%20 == 0 {
			want := NewSnapshot()
			for _, n := range nodes {
				want.SetNode(n)
			}
			for _, p := range pods {
				want.SetPod(p)
			}
			if got, want := describe(s), describe(want); got != want {
				t.Fatalf("step %d: the snapshot is\n%s\nwant\n%s", step, got, want)
			}
		}
	}
}

// describe returns the sums of a snapshot.
func describe(s *Snapshot) (text string) {
	web := s.countSelected("default", labels.SelectorFromSet(labels.Set{"app": "web"}))
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		text += fmt.Sprintln(name, n.Node != nil, n.requested.MilliCPU, n.requested.Scalar["example.com/x"], n.nonZeroCPU, n.nonZeroMemory, len(n.pods), n.ports, web.at(n))
		for _, image := range slices.Sorted(maps.Keys(n.images)) {
			text += fmt.Sprintln(image, *n.images[image])
		}
	}
	for _, g := range s.groups[antiTerms] {
		text += fmt.Sprintln(g.key, g.pods)
		for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
			if slot := s.nodes[name].slot; slot < len(g.bySlot) {
				text += fmt.Sprint(name, g.bySlot[slot], " ")
			} else {
				text += fmt.Sprint(name, 0, " ")
			}
		}
	}
	return text + fmt.Sprintln(len(s.list), s.claims, len(s.images))
}

// TestCountOfAPair: a count with a label looks at no pod without it, neither when it is made nor when pods come and go.
func TestCountOfAPair(t *testing.T) {
	s, looks := NewSnapshot(), 0
	pod := func(name, app string) *corev1.Pod {
		p := newTestPod(t, name, "n", "{containers: [{name: c}]}")
		p.Labels = map[string]string{"app": app, "tier": "x"}
		return p
	}
	for i := range 50 {
		s.SetPod(pod(fmt.Sprint("a", i), "a"))
	}
	for i := range 3 {
		s.SetPod(pod(fmt.Sprint("b", i), "b"))
	}
	c := s.count("b", pairOf(labels.SelectorFromSet(labels.Set{"app": "b"})), func(*Pod) bool { looks++; return true })
	s.SetPod(pod("a50", "a"))
	s.RemovePod(pod("a1", "a").UID)
	s.SetPod(pod("b3", "b"))
	s.SetPod(pod("b0", "a")) // its label changes
	if n := c.at(s.nodes["n"]); n != 3 || looks != 5 {
		t.Errorf("%d pods are counted, after %d looks", n, looks)
	}
	for _, p := range slices.Collect(maps.Values(s.pods)) {
		s.RemovePod(p.UID)
	}
	if len(s.labeled) != 0 || c.bySlot[0] != 0 {
		t.Errorf("of pods that are gone, the snapshot has %v", s.labeled)
	}
}

// TestManyCounts: more selectors than the snapshot keeps counts for, with a label or without one, are counted right after changes.
func TestManyCounts(t *testing.T) {
	s := NewSnapshot()
	place := func(i int) {
		p := newTestPod(t, fmt.Sprint("p", i), "n", "{containers: [{name: c}]}")
		p.Labels = map[string]string{"app": fmt.Sprint(i), "even": fmt.Sprint(i%2 == 0)}
		s.SetPod(p)
	}
	const apps = maxCounts + 100
	check := func(want int64) {
		t.Helper()
		for i := range apps {
			one, err := labels.Parse(fmt.Sprintf("app=%d,even", i))
			if err != nil {
				t.Fatal(err)
			}
			other, err := labels.Parse(fmt.Sprintf("even,app notin (%d)", i))
			if err != nil {
				t.Fatal(err)
			}
			if n := s.countSelected("default", one).at(s.node("n")); n != min(want, 1) && i < 10 || n > 1 {
				t.Fatalf("%d pods match %s", n, one)
			}
			if i%100 > 0 {
				continue
			}
			if n := s.countSelected("default", other).at(s.node("n")); i < 10 && n != want-1 {
				t.Fatalf("%d pods match %s, want %d", n, other, want-1)
			}
		}
		kept := 0
		for _, list := range s.byPair {
			kept += len(list)
		}
		if len(s.counts) > maxCounts || kept != len(s.counts) {
			t.Fatalf("the snapshot keeps %d counts, and %d by their labels", len(s.counts), kept)
		}
	}
	for i := range 10 {
		place(i)
	}
	check(10)
	for i := 10; i < 20; i++ {
		place(i)
	}
	check(20)
}
