package nodelifecycle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inZone returns a node of a zone.
func inZone(name, zone string, ready bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	return n
}

// rates returns the rates of the evictions by zone, and whether evictions have stopped.
func (z *zones) rates() string {
	var list []string
	for key, in := range z.by {
		if in.isCounted() {
			list = append(list, fmt.Sprintf("%s %v", key[len(":\x00:"):], in.limiter.rate))
		}
	}
	slices.Sort(list)
	if z.stopped {
		list = append(list, "stopped")
	}
	return strings.Join(list, ", ")
}

// TestRates: the rate of evictions in the zone a, by its nodes and the nodes that are not ready.
func TestRates(t *testing.T) {
	for _, tt := range []struct {
		nodes, unready int
		others         bool // the zone b has a ready node
		want           string
	}{
		{nodes: 1, unready: 0, want: "a 0.1"},
		{nodes: 1, unready: 1, want: "a 0, stopped"},
		{nodes: 1, unready: 1, others: true, want: "a 0.1, b 0.1"}, // a zone without ready nodes
		{nodes: 3, unready: 2, want: "a 0.1"},
		{nodes: 5, unready: 2, want: "a 0.1"},
		{nodes: 5, unready: 3, want: "a 0"},
		{nodes: 5, unready: 5, others: true, want: "a 0.1, b 0.1"},
		{nodes: 50, unready: 27, want: "a 0.1"},
		{nodes: 50, unready: 28, want: "a 0"},
		{nodes: 51, unready: 29, want: "a 0.01"},
	} {
		z := newZones(time.Time{})
		if tt.others {
			z.set(inZone("other", "b", true), false, time.Time{})
		}
		for i := range tt.nodes {
			z.set(inZone(fmt.Sprint(i), "a", i >= tt.unready), false, time.Time{})
		}
		if got := z.rates(); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// TestOutages: steps of a node of a zone after a time, and the rates that follow.
func TestOutages(t *testing.T) {
	type step struct {
		after             time.Duration
		node, zone, state string // ready, unready, excluded or gone
		want              string
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"the last ready node fails, and is ready again", []step{
			{0, "1", "a", "ready", "a 0.1"},
			{0, "2", "b", "unready", "a 0.1, b 0.1"},
			{time.Minute, "1", "a", "unready", "a 0, b 0, stopped"},
			{time.Minute, "2", "b", "unready", "a 0, b 0, stopped"},
			{time.Minute, "2", "b", "ready", "a 0.1, b 0.1"},
		}},
		{"the last ready node is gone", []step{
			{0, "1", "a", "ready", "a 0.1"},
			{0, "2", "b", "unready", "a 0.1, b 0.1"},
			{time.Minute, "1", "a", "gone", "b 0.1"},
		}},
		{"the last ready node is gone, and another one comes", []step{
			{0, "1", "a", "ready", "a 0.1"},
			{0, "2", "b", "unready", "a 0.1, b 0.1"},
			{time.Minute, "1", "a", "gone", "b 0.1"},
			{time.Minute, "3", "c", "unready", "b 0, c 0, stopped"}, // a zone without a state counts as ready
		}},
		{"the last ready node is excluded", []step{
			{0, "1", "a", "ready", "a 0.1"},
			{0, "2", "b", "unready", "a 0.1, b 0.1"},
			{time.Minute, "1", "a", "excluded", "b 0.1"},
		}},
		{"a new zone has the first ready node", []step{
			{0, "1", "a", "unready", "a 0, stopped"},
			{time.Minute, "2", "b", "ready", "a 0, b 0.1"},
			{time.Minute, "3", "a", "ready", "a 0.1, b 0.1"}, // the state of the zone a changes
		}},
		{"a new zone has the first ready node in the period of the outage", []step{
			{0, "1", "a", "unready", "a 0, stopped"},
			{time.Second, "2", "b", "ready", "a 0.1, b 0.1"},
		}},
		{"a zone is partially disrupted for less than a period", []step{
			{0, "1", "a", "ready", "a 0.1"},
			{0, "2", "a", "unready", "a 0.1"},
			{0, "3", "a", "unready", "a 0.1"},
			{time.Minute, "4", "a", "unready", "a 0"},
			{time.Second, "4", "a", "ready", "a 0.1"},
		}},
		{"excluded nodes alone", []step{
			{0, "1", "a", "excluded", ""},
			{time.Minute, "2", "b", "unready", "b 0, stopped"},
			{time.Minute, "1", "a", "ready", "a 0.1, b 0"},
		}},
	} {
		now := time.Time{}
		z := newZones(now)
		for i, s := range tt.steps {
			now = now.Add(s.after)
			n := inZone(s.node, s.zone, s.state == "ready")
			if s.state == "excluded" {
				n.Labels[excludedLabel] = ""
			}
			if s.state == "gone" {
				z.remove(s.node, now)
			} else {
				z.set(n, false, now)
			}
			if got := z.rates(); got != s.want {
				t.Errorf("%s, step %d: %s; want %s", tt.name, i+1, got, s.want)
			}
		}
	}
}

// ticks is a model of zones that looks at all nodes once in a period, as Kubernetes does.
//
//upstream:pkg/controller/nodelifecycle.Controller.handleDisruption
type ticks struct {
	states  map[string]zoneState
	rates   map[string]rate.Limit
	stopped bool
	// recovered is the period that ended with the first node ready again, or -1.
	recovered int
}

func (m *ticks) look(period int, nodes map[string]*corev1.Node) {
	all := map[string]*zone{}
	for name, n := range nodes {
		key := zoneKey(n)
		if _, found := m.states[key]; !found {
			m.states[key], m.rates[key] = initial, evictionRate
		}
		if _, excluded := n.Labels[excludedLabel]; excluded {
			continue
		}
		if all[key] == nil {
			all[key] = &zone{ready: map[string]bool{}}
		}
		if all[key].ready[name] = n.Status.Conditions[0].Status == corev1.ConditionTrue; !all[key].ready[name] {
			all[key].unready++
		}
	}
	allAre, allWere := true, true
	for key := range m.states {
		if all[key] == nil {
			delete(m.states, key)
			continue
		}
		allAre = allAre && all[key].current() == fullDisruption
		allWere = allWere && m.states[key] == fullDisruption
	}
	for key := range m.states {
		switch state := all[key].current(); {
		case allAre && allWere:
		case allAre:
			m.states[key], m.rates[key] = fullDisruption, 0
		case allWere || state != m.states[key]:
			m.states[key], m.rates[key] = state, all[key].rate()
		}
	}
	if allWere && !allAre {
		m.recovered = period
	}
	if allAre != allWere || !allAre {
		m.stopped = allAre
	}
}

func (m *ticks) text() string {
	var list []string
	for key := range m.states {
		list = append(list, fmt.Sprintf("%s %v", key[len(":\x00:"):], m.rates[key]))
	}
	slices.Sort(list)
	if m.stopped {
		list = append(list, "stopped")
	}
	return strings.Join(list, ", ")
}

// TestZonesAgainstTicks: changes at random times have the states at the ends of the periods that the model has.
func TestZonesAgainstTicks(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		start := time.Unix(0, 0)
		z, m, nodes := newZones(start), &ticks{states: map[string]zoneState{}, rates: map[string]rate.Limit{}, recovered: -1}, map[string]*corev1.Node{}
		var history []string
		for period := range 12 {
			for i := range r.IntN(4) {
				now := start.Add(time.Duration(period)*monitorPeriod + time.Duration(i)*time.Second)
				name := fmt.Sprint(r.IntN(5))
				if r.IntN(5) == 0 {
					history = append(history, fmt.Sprint(period, " gone ", name))
					delete(nodes, name)
					z.remove(name, now)
					continue
				}
				n := inZone(name, string(rune('a'+r.IntN(3))), r.IntN(3) == 0)
				if old := nodes[name]; old != nil && r.IntN(8) > 0 {
					n.Labels = maps.Clone(old.Labels)
				} else if r.IntN(4) == 0 {
					n.Labels[excludedLabel] = ""
				}
				history = append(history, fmt.Sprint(period, " set ", name, " ", n.Labels, " ", n.Status.Conditions[0].Status))
				nodes[name] = n
				z.set(n, false, now)
			}
			m.look(period, nodes)
			got, want := z.rates(), m.text()
			recovered := -1
			if !z.recovered.IsZero() {
				recovered = z.periodAt(z.recovered) - 1
			}
			if seen[got] = true; got != want || recovered != m.recovered {
				t.Fatalf("seed %d, after period %d: %s, recovered %d; want %s and %d\n%s", seed, period, got, recovered, want, m.recovered, strings.Join(history, "\n"))
			}
		}
	}
	t.Logf("%d states", len(seen))
}

// TestConcernedNodes: a change of a node concerns the nodes for which evictions begin or end.
func TestConcernedNodes(t *testing.T) {
	now := time.Time{}
	z := newZones(now)
	step := func(again []string, want ...string) {
		t.Helper()
		now = now.Add(monitorPeriod)
		slices.Sort(again)
		if !slices.Equal(again, want) {
			t.Errorf("concerns %v, want %v", again, want)
		}
	}
	set := func(n *corev1.Node) []string { return z.set(n, false, now) }
	step(set(inZone("a1", "a", true)))
	step(set(inZone("b1", "b", true)))
	step(set(inZone("a1", "a", false)))
	step(set(inZone("b1", "b", false)), "a1", "b1") // evictions stop
	step(set(inZone("b1", "b", false)))
	step(set(inZone("b1", "b", true)), "a1", "b1")
	for i := range 4 {
		step(set(inZone(fmt.Sprint("b", i+2), "b", true)))
	}
	step(set(inZone("b1", "b", false)))
	step(set(inZone("b2", "b", false)))
	step(set(inZone("b3", "b", false)), "b1", "b2", "b3", "b4", "b5") // partial disruption
	step(z.remove("b3", now), "b1", "b2", "b4", "b5")
	step(set(inZone("b2", "a", false)))
	step(z.remove("unknown", now))
	excluded := inZone("b4", "b", false)
	excluded.Labels[excludedLabel] = ""
	step(set(excluded))
	step(z.set(inZone("b5", "b", true), true, now), "a1", "b1", "b2", "b4", "b5") // no other node is ready
}

// TestUntilEviction: one node gets the taint at once, and the others one by one. After an outage, the first one waits, too.
func TestUntilEviction(t *testing.T) {
	now := time.Time{}
	z := newZones(now)
	set := func(name string, ready bool) { z.set(inZone(name, "a", ready), false, now) }
	for _, name := range []string{"ready", "ready2", "ready3"} {
		set(name, true)
	}
	for i := range 3 {
		set(fmt.Sprint(i), false)
	}
	step := func(after, want time.Duration) {
		t.Helper()
		got := z.untilEviction(inZone("0", "a", false), now.Add(after))
		if got > 0 {
			got = got.Round(time.Second)
		}
		if got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	step(0, 0)
	step(0, 10*time.Second)
	step(4*time.Second, 6*time.Second)
	step(10*time.Second, 0)
	now = now.Add(time.Minute)
	set("ready2", false)
	set("ready3", false)
	step(0, -1)
	now = now.Add(time.Minute)
	set("ready", false)
	step(0, -1)
	now = now.Add(time.Minute)
	set("ready", true)
	step(0, -1) // partial disruption
	set("ready2", true)
	set("ready3", true)
	step(0, 10*time.Second)
}
