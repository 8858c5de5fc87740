package nodelifecycle

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/nodestate"
)

// The rates, in nodes per second, at which nodes of a zone get taints that evict pods.
//
//upstream:cmd/kube-controller-manager/app/options.NodeLifecycleControllerOptions
const (
	evictionRate          = 0.1
	secondaryEvictionRate = 0.01 // of a large zone with many nodes that are not ready
	largeZone             = 50   // nodes
	unhealthyThreshold    = 0.55 // of the nodes
)

// excludedLabel excludes a node from the health of its zone.
//
//upstream:pkg/controller/nodelifecycle.labelNodeDisruptionExclusion
const excludedLabel = "node.kubernetes.io/exclude-disruption"

// zoneState is the state of a zone by its nodes that are ready.
//
//upstream:pkg/controller/nodelifecycle.ZoneState
type zoneState int

const (
	initial zoneState = iota // the zone has no state yet
	normal
	partialDisruption
	fullDisruption
)

// zones has the states of the zones of a cluster. Kubernetes looks at all nodes once in a period. Here, a change of a node counts at
// once, but the states follow the states at the beginning of the period: a state that lasts for less than a period leaves nothing
// behind.
type zones struct {
	of     map[string]string // the zone of each node
	by     map[string]*zone
	start  time.Time // of the first period
	period int       // of the last change

	stopped, stoppedBefore bool // evictions have stopped, because no node is ready
	outages                int  // how often evictions have stopped
	outage                 int  // the period in which they have stopped last

	recovered, recoveredBefore time.Time // the look at which evictions went on because the first node was ready again
}

// zone is the set of the nodes of a zone.
type zone struct {
	members map[string]bool
	ready   map[string]bool // by node, without excluded and skipped nodes
	unready int             // how many in ready are not
	limiter *limiter

	state, before zoneState // initial without nodes in ready
	rateBefore    rate.Limit
}

func newZones(start time.Time) *zones {
	return &zones{of: map[string]string{}, by: map[string]*zone{}, start: start, outage: -1}
}

// monitorPeriod is the time between two looks at the nodes in Kubernetes.
//
//upstream:cmd/kube-controller-manager/app/options.NodeLifecycleControllerOptions
const monitorPeriod = 5 * time.Second

// periodAt returns the number of a period.
func (z *zones) periodAt(t time.Time) int { return int(t.Sub(z.start) / monitorPeriod) }

// look returns the time of the first look at the nodes after a time, which ends its period.
func (z *zones) look(t time.Time) time.Time {
	return z.start.Add(time.Duration(z.periodAt(t)+1) * monitorPeriod)
}

// limiter limits the rate at which nodes of a zone get taints that evict pods. The rate 0 forbids it.
type limiter struct {
	rate rate.Limit
	*rate.Limiter
}

func newLimiter() *limiter { return &limiter{evictionRate, rate.NewLimiter(evictionRate, 1)} }

// setRate changes the rate. If no node could get a taint now, the first one waits for its whole time.
//
//upstream:pkg/controller/nodelifecycle/scheduler.RateLimitedTimedQueue.SwapLimiter
func (l *limiter) setRate(to rate.Limit, now time.Time) {
	if l.rate == to {
		return
	}
	waits := !l.allow(now)
	l.rate, l.Limiter = to, rate.NewLimiter(to, 1)
	if waits {
		l.AllowN(now, 1)
	}
}

// allow reports whether a node may get a taint now, and counts it.
func (l *limiter) allow(now time.Time) bool { return l.rate > 0 && l.AllowN(now, 1) }

// zoneKey returns the region and the zone of a node.
//
//upstream:k8s.io/component-helpers/node/topology.GetZoneKey
func zoneKey(node *corev1.Node) string {
	of := func(old, name string) string {
		if value, ok := node.Labels[old]; ok {
			return value
		}
		return node.Labels[name]
	}
	return of(corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion) + ":\x00:" + of(corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone)
}

// set updates the state of a node. It returns the nodes for which evictions may begin or end.
func (z *zones) set(node *corev1.Node, skipped bool, now time.Time) (again []string) {
	z.advance(now)
	z.place(node, skipped)
	return z.update(now)
}

// place puts a node into its zone. A node with a health that could not be checked is skipped: it does not count there.
func (z *zones) place(node *corev1.Node, skipped bool) {
	key := zoneKey(node)
	z.leave(node.Name)
	z.of[node.Name] = key
	in := z.by[key]
	if in == nil {
		in = &zone{ready: map[string]bool{}, members: map[string]bool{}, limiter: newLimiter(), rateBefore: evictionRate}
		z.by[key] = in
	}
	in.members[node.Name] = true
	if _, excluded := node.Labels[excludedLabel]; excluded || skipped {
		return
	}
	if in.ready[node.Name] = nodestate.Ready(node); !in.ready[node.Name] {
		in.unready++
	}
}

// remove removes a node, and returns the nodes for which evictions may begin or end.
func (z *zones) remove(name string, now time.Time) (again []string) {
	z.advance(now)
	if _, ok := z.of[name]; ok {
		z.leave(name)
		again = z.update(now)
	}
	return again
}

// leave removes a node from its zone.
func (z *zones) leave(name string) {
	key, ok := z.of[name]
	if !ok {
		return
	}
	in := z.by[key]
	if ready, counted := in.ready[name]; counted && !ready {
		in.unready--
	}
	delete(z.of, name)
	delete(in.ready, name)
	delete(in.members, name)
}

// update sets the states of the zones, and the rates of their evictions. Evictions stop when the last zone with a ready node has
// none, and go on when one of these zones has one again. If a new zone has the ready node, they go on in zones with a changed state
// alone, as in Kubernetes.
//
//upstream:pkg/controller/nodelifecycle.Controller.handleDisruption
func (z *zones) update(now time.Time) (again []string) {
	allAre, allWere := true, true
	for _, in := range z.by {
		if in.isCounted() {
			allAre = allAre && in.current() == fullDisruption
			allWere = allWere && in.before == fullDisruption
		}
	}
	was, stops := z.stopped, allAre && !allWere
	z.stopped = stops || allAre && z.stoppedBefore
	if stops && z.outage != z.period {
		z.outages, z.outage, was = z.outages+1, z.period, !z.stopped
	}
	for _, in := range z.by {
		if in.set(stops, allAre != allWere, now) {
			again = slices.AppendSeq(again, maps.Keys(in.members))
		}
	}
	recovered := z.recovered
	if z.recovered = z.recoveredBefore; allWere && !allAre {
		z.recovered = z.look(now)
	}
	if was != z.stopped || recovered != z.recovered {
		again = slices.Collect(maps.Keys(z.of))
	}
	return again
}

// advance begins another period, if it has come. It precedes each change.
func (z *zones) advance(now time.Time) {
	period := z.periodAt(now)
	if period == z.period {
		return
	}
	z.period, z.stoppedBefore, z.recoveredBefore = period, z.stopped, z.recovered
	for key, in := range z.by {
		if in.before, in.rateBefore = in.state, in.limiter.rate; len(in.members) == 0 {
			delete(z.by, key)
		}
	}
}

// set sets the state of a zone and the rate of its evictions, and reports whether the rate has changed. stops says that evictions
// stop, and changes that they stop or go on.
func (in *zone) set(stops, changes bool, now time.Time) (changed bool) {
	if !in.isCounted() {
		if changed = in.state != initial; changed {
			in.state, in.limiter = initial, newLimiter()
		}
		return changed
	}
	limit := in.rateBefore
	in.state = in.current()
	switch {
	case stops:
		limit = 0
	case changes || in.state != in.before:
		limit = in.rate()
	}
	if changed = limit != in.limiter.rate; changed {
		in.limiter.setRate(limit, now)
	}
	return changed
}

// isCounted reports whether a zone has nodes that are neither excluded nor skipped.
func (in *zone) isCounted() bool { return in != nil && len(in.ready) > 0 }

// current returns the state of a zone by its nodes.
//
//upstream:pkg/controller/nodelifecycle.Controller.ComputeZoneState
func (in *zone) current() zoneState {
	switch {
	case in.unready > 0 && in.unready == len(in.ready):
		return fullDisruption
	case in.unready > 2 && float32(in.unready)/float32(len(in.ready)) >= unhealthyThreshold:
		return partialDisruption
	}
	return normal
}

// rate returns the rate at which nodes of a zone get taints that evict pods, by the nodes of the zone alone.
//
//upstream:pkg/controller/nodelifecycle.Controller.setLimiterInZone
//upstream:pkg/controller/nodelifecycle.Controller.ReducedQPSFunc
func (in *zone) rate() rate.Limit {
	switch {
	case in.current() != partialDisruption:
		return evictionRate
	case len(in.ready) > largeZone:
		return secondaryEvictionRate
	}
	return 0
}

// untilEviction returns the time until a node of the zone may get a taint that evicts pods: zero, or less than zero if it
// may not. If the result is zero, the node must get the taint.
func (z *zones) untilEviction(node *corev1.Node, now time.Time) time.Duration {
	limiter := z.by[z.of[node.Name]].limiter
	switch {
	case limiter.rate == 0:
		return -1
	case limiter.allow(now):
		return 0
	}
	return cmp.Or(time.Duration(float64(time.Second)*(1-limiter.TokensAt(now))/float64(limiter.rate)), 1)
}
