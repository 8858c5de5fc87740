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
		p := newTestPod(t, fmt.Sprint("p", random.IntN(30)), name, `{`+[]string{"", anti}[random.IntN(2)]+
			`containers: [{name: c, ports: [{containerPort: 1, hostPort: 80}], resources: {requests: {cpu: `+fmt.Sprint(random.IntN(3))+`, example.com/x: 1}}}],
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
