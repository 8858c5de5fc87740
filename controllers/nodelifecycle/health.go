package nodelifecycle

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/nodestate"
	"flyball.dev/ctrl/reconcile"
)

// The time that a kubelet may be silent, with and without a first status.
//
//upstream:pkg/controller/nodelifecycle/config/v1alpha1.RecommendedDefaultNodeLifecycleControllerConfiguration
const (
	gracePeriod        = 50 * time.Second
	startupGracePeriod = 60 * time.Second
)

// health is the last sign of life of a kubelet in the status of its node.
//
//upstream:pkg/controller/nodelifecycle.nodeHealthData
type health struct {
	uid        types.UID
	now        signs     // at the next look
	before     signs     // at the last look
	look       time.Time // the next look
	unready    bool      // the condition Ready is not true
	mark       bool      // the pods on the node have not been marked as not ready yet
	registered bool      // the node has had its taints
	outage     int       // the last outage in which the node has lost the taints that evict pods
	swapped    int       // the period in which one of these taints replaced the other one
}

// signs are the signs of life in the status of a node.
type signs struct {
	probe     time.Time // of the last one
	posted    bool      // there is a condition Ready
	heartbeat metav1.Time
}

// record returns the signs with a condition Ready, which is nil if there is none, that is no sign of life.
func (s signs) record(c *corev1.NodeCondition) signs {
	s.posted, s.heartbeat = c != nil, metav1.Time{}
	if c != nil {
		s.heartbeat = c.LastHeartbeatTime
	}
	return s
}

// renewal is the history of the lease of a node, as far as it decides whether the kubelet is alive.
type renewal struct {
	sign     revision  // of the lease that was a sign of life
	last     revision  // of the lease as it is; earlier if the clock was ahead
	observed time.Time // the look at the sign of life
	anyUntil time.Time // until this look, any lease is a sign of life
}

// revision is a state of a lease.
type revision struct {
	renewed *metav1.MicroTime
	version string
}

// observe records a lease, which Kubernetes sees at a look. It is a sign of life if it is new, or renewed.
//
//upstream:pkg/controller/nodelifecycle.Controller.tryUpdateNodeHealth
func (l *renewal) observe(lease *coordinationv1.Lease, look time.Time) {
	l.last = revision{lease.Spec.RenewTime, lease.ResourceVersion}
	if l.sign.version == "" || l.sign.renewed.Before(l.last.renewed) {
		l.sign, l.observed = l.last, look
	} else if !look.After(l.anyUntil) {
		l.sign = l.last
	}
}

// observe records the signs of life in the condition Ready of a node, which is nil if there is none. look is the time at which
// Kubernetes looks at the node: a condition that is replaced or removed before leaves no sign. After a sign, it forgets the lease, and
// takes it for a new one when it looks the next time.
//
//upstream:pkg/controller/nodelifecycle.Controller.tryUpdateNodeHealth
func (h *health) observe(c *corev1.NodeCondition, lease *renewal, look time.Time) {
	if !look.Equal(h.look) {
		h.before, h.look = h.now, look
	}
	h.now = h.before.record(c)
	if c == nil || h.before.posted && c.LastHeartbeatTime.Equal(&h.before.heartbeat) {
		return
	}
	if h.now.probe = look; lease.sign.version != "" {
		h.now.probe = look.Add(monitorPeriod)
		lease.sign, lease.anyUntil = lease.last, h.now.probe
	}
}

// record records a condition Ready that is no sign of life.
func (h *health) record(c *corev1.NodeCondition) {
	h.before, h.now = h.before.record(c), h.now.record(c)
}

// overdueAt returns the time at which a kubelet has been silent for too long. When the first node of a cluster has recovered, the
// others get time to follow.
//
//upstream:pkg/controller/nodelifecycle.Controller.tryUpdateNodeHealth
func (h *health) overdueAt(lease *renewal, recovered time.Time) time.Time {
	probe, grace := h.now.probe, gracePeriod
	for _, sign := range []time.Time{lease.observed, recovered} {
		if sign.After(probe) {
			probe = sign
		}
	}
	if !h.now.posted {
		grace = startupGracePeriod
	}
	return probe.Add(grace)
}

// observe records the signs of life in the status of a node, and reports whether the node is new.
func (r *reconciler) observe(node *corev1.Node) (added bool) {
	c := condition(node)
	r.mu.Lock()
	defer r.mu.Unlock()
	look := r.zones.look(time.Now())
	h := r.health[node.Name]
	if added = h == nil || h.uid != node.UID; added {
		h = &health{uid: node.UID, now: signs{probe: node.CreationTimestamp.Time}, swapped: -1}
		r.health[node.Name] = h
	}
	h.observe(c, r.renewal(node.Name), look)
	return added
}

// renewal returns the last renewal of the lease of a node. The caller holds the lock.
func (r *reconciler) renewal(node string) *renewal {
	if r.renewals[node] == nil {
		r.renewals[node] = &renewal{}
	}
	return r.renewals[node]
}

// untilOverdue returns the time until the kubelet of a node has been silent for too long, and the version of the lease that
// was a sign of life.
func (r *reconciler) untilOverdue(node *corev1.Node, now time.Time) (time.Duration, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lease := r.renewal(node.Name)
	overdue := r.zones.look(r.health[node.Name].overdueAt(lease, r.zones.recovered).Add(-1))
	return overdue.Sub(now), lease.sign.version
}

// record records a condition that this controller has written.
func (r *reconciler) record(node *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.health[node.Name]; h != nil {
		h.record(condition(node))
	}
}

// remove removes a deleted node.
func (r *reconciler) remove(name string) {
	r.mu.Lock()
	h := r.health[name]
	delete(r.health, name)
	delete(r.renewals, name)
	again := r.zones.remove(name, time.Now())
	r.mu.Unlock()
	r.enqueue(again)
	if h != nil {
		r.recorder.Eventf(reference(name, &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: h.uid}}), corev1.EventTypeNormal, "RemovingNode",
			"Node %[1]s event: Removing Node %[1]s from Controller", name)
	}
}

// setZone updates the state of the node in its zone. A change of the state of a zone concerns the other nodes.
func (r *reconciler) setZone(node *corev1.Node, skipped bool) {
	r.mu.Lock()
	again := r.zones.set(node, skipped, time.Now())
	r.mu.Unlock()
	r.enqueue(slices.DeleteFunc(again, func(name string) bool { return name == node.Name }))
}

// losesTaints reports whether a node loses the taints that evict pods. When evictions stop, each node loses them once, except for a
// taint that replaces the other one in the same period. swaps says whether it does now. outage is for tainted, when the node has its
// taints: evictions may stop meanwhile.
//
//upstream:pkg/controller/nodelifecycle.Controller.handleDisruption
//upstream:pkg/controller/nodelifecycle.Controller.processTaintBaseEviction
func (r *reconciler) losesTaints(node *corev1.Node, swaps bool, now time.Time) (loses bool, outage int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.health[node.Name]
	if h == nil || h.outage == r.zones.outages {
		return false, r.zones.outages
	}
	return r.zones.outage != h.swapped && !(swaps && r.zones.outage == r.zones.periodAt(now)), r.zones.outages
}

// tainted records that a node has its taints, as of an outage. swapped says whether a taint that evicts pods has replaced the other one.
func (r *reconciler) tainted(node *corev1.Node, outage int, swapped bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.health[node.Name]
	if h == nil {
		return
	}
	h.registered, h.outage = true, outage
	if swapped {
		h.swapped = r.zones.periodAt(now)
	}
}

// isRegistered reports whether a node has had its taints since the controller knows it. Without a condition Ready, it keeps them
// from then on.
func (r *reconciler) isRegistered(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.health[node]
	return h != nil && h.registered
}

// untilEviction is untilEviction of the zones.
func (r *reconciler) untilEviction(node *corev1.Node, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.zones.untilEviction(node, now)
}

// isUnready reports whether a node is known, and has a condition Ready that is not true.
func (r *reconciler) isUnready(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.health[node]
	return h != nil && h.unready
}

// setReadiness records whether a node is unready, and reports whether its pods must be marked as not ready.
func (r *reconciler) setReadiness(node *corev1.Node) (mark bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.health[node.Name]
	if h == nil {
		return false
	}
	h.unready = condition(node) != nil && !nodestate.Ready(node)
	h.mark = h.mark && h.unready
	return h.mark
}

// setMark records whether the pods on a node must be marked as not ready.
func (r *reconciler) setMark(node string, mark bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.health[node]; h != nil {
		h.mark = mark
	}
}

// enqueue enqueues nodes.
func (r *reconciler) enqueue(nodes []string) {
	for _, name := range nodes {
		r.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
}

// condition returns the condition Ready of a node, or nil.
func condition(node *corev1.Node) *corev1.NodeCondition {
	return nodestate.Condition(node, corev1.NodeReady)
}

// unknownConditions returns the conditions of a node with a silent kubelet.
func unknownConditions(node *corev1.Node, now time.Time) []corev1.NodeCondition {
	list := slices.Clone(node.Status.Conditions)
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		i := slices.IndexFunc(list, func(c corev1.NodeCondition) bool { return c.Type == kind })
		switch {
		case i < 0:
			list = append(list, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
		case list[i].Status != corev1.ConditionUnknown:
			c := &list[i]
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
	return list
}
