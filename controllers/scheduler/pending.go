package scheduler

import (
	"cmp"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/scheduler/framework"
)

// pending are the pods with an attempt that failed. A pod that fits nowhere is tried again when a change may help. Each attempt that
// fails is followed by a back-off, from one second to ten. A pod is here until it is bound.
//
//upstream:pkg/scheduler/backend/queue.PriorityQueue
type pending struct {
	pods map[types.NamespacedName]*pendingPod
}

// pendingPod is a pod with an attempt that failed.
//
//upstream:pkg/scheduler/framework.QueuedPodInfo
type pendingPod struct {
	pod      *corev1.Pod
	plugins  []string  // the ones that rejected it
	attempts int       // the ones that found no node
	errors   int       // the ones with an error since
	until    time.Time // the end of the back-off
	helped   bool      // something has changed since the last attempt
	delayed  bool      // and the pod waits for the end of the back-off
}

// retry is a pod to try again.
type retry struct {
	key      types.NamespacedName
	priority int
	after    time.Duration // the rest of its back-off
}

func newPending() *pending { return &pending{map[types.NamespacedName]*pendingPod{}} }

// The limits of the back-off.
//
//upstream:pkg/scheduler/backend/queue.DefaultPodInitialBackoffDuration
//upstream:pkg/scheduler/backend/queue.DefaultPodMaxBackoffDuration
const (
	minBackoff = time.Second
	maxBackoff = 10 * time.Second
)

// backoff returns the back-off after a number of attempts.
//
//upstream:pkg/scheduler/backend/queue.backoffQueue.calculateBackoffDuration
func backoff(attempts int) time.Duration {
	if attempts > 4 {
		return maxBackoff
	}
	return min(minBackoff<<(attempts-1), maxBackoff)
}

// add adds a copy of a pod after an attempt that failed. The caller updates its pod with the responses to its writes.
//
//upstream:pkg/scheduler/backend/queue.PriorityQueue.AddUnschedulablePodIfNotPresent
func (p *pending) add(pod *corev1.Pod, plugins []string, now time.Time) {
	w := p.of(pod)
	w.attempts, w.errors = w.attempts+1, 0
	w.pod, w.plugins, w.until, w.helped, w.delayed = pod.DeepCopy(), plugins, now.Add(backoff(w.attempts)), false, false
}

// fail adds a copy of a pod after an attempt with an error, and returns its back-off. The caller tries the pod again after that,
// and nothing ends the back-off earlier.
//
//upstream:pkg/scheduler/backend/queue.PriorityQueue.AddUnschedulablePodIfNotPresent
//upstream:pkg/scheduler/backend/queue.backoffQueue.getBackoffTime
func (p *pending) fail(pod *corev1.Pod, now time.Time) time.Duration {
	w := p.of(pod)
	w.errors++
	after := backoff(w.errors)
	w.pod, w.plugins, w.until, w.helped, w.delayed = pod.DeepCopy(), nil, now.Add(after), true, false
	return after
}

// afterError returns the rest of the back-off of a pod after an error.
func (p *pending) afterError(pod *corev1.Pod, now time.Time) time.Duration {
	w := p.pods[keyOf(pod)]
	if w == nil || w.pod.UID != pod.UID || w.errors == 0 {
		return 0
	}
	return max(w.until.Sub(now), 0)
}

// of returns the entry of a pod, and adds it if necessary.
func (p *pending) of(pod *corev1.Pod) *pendingPod {
	w := p.pods[keyOf(pod)]
	if w == nil || w.pod.UID != pod.UID {
		w = &pendingPod{pod: pod}
		p.pods[keyOf(pod)] = w
	}
	return w
}

// hold makes a pod wait for the end of its binding: no change needs to help it.
func (p *pending) hold(key types.NamespacedName) {
	if w := p.pods[key]; w != nil {
		w.helped, w.delayed = true, false
	}
}

// remove removes a pod that is bound or deleted.
func (p *pending) remove(key types.NamespacedName) { delete(p.pods, key) }

// helped returns the pods that a change may help. changed are the states of the pod that changed, or none.
//
//upstream:pkg/scheduler/backend/queue.PriorityQueue.MoveAllToActiveOrBackoffQueue
func (p *pending) helped(event framework.Event, now time.Time, changed ...*corev1.Pod) []retry {
	return p.helpedUpTo(math.MaxInt, event, now, changed...)
}

// helpedUpTo is helped for the pods of up to a priority.
//
//upstream:pkg/scheduler.getLEPriorityPreCheck
func (p *pending) helpedUpTo(priority int, event framework.Event, now time.Time, changed ...*corev1.Pod) (list []retry) {
	if event == 0 {
		return nil
	}
	for key, w := range p.pods {
		if w.helped || priorityOf(w.pod) > priority || !event.Helps(w.pod, w.plugins, changed...) {
			continue
		}
		w.helped = true
		after := max(w.until.Sub(now), 0)
		w.delayed = after > 0
		list = append(list, retry{key, priorityOf(w.pod), after})
	}
	return list
}

// popBackoff returns the pod with the earliest end of its back-off, and ends the back-off.
func (p *pending) popBackoff() (retry, bool) {
	var first *pendingPod
	for _, w := range p.pods {
		if w.delayed && (first == nil || cmp.Or(w.until.Compare(first.until), cmp.Compare(priorityOf(first.pod), priorityOf(w.pod))) < 0) {
			first = w
		}
	}
	if first == nil {
		return retry{}, false
	}
	first.delayed = false
	return retry{key: keyOf(first.pod), priority: priorityOf(first.pod)}, true
}

func priorityOf(pod *corev1.Pod) int { return int(ptr.Deref(pod.Spec.Priority, 0)) }
