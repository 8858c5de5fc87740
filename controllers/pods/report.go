package pods

import (
	"hash/fnv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/nodestate"
)

// reportInterval is the interval at which a kubelet posts a status that has not changed.
//
//upstream:pkg/kubelet/apis/config/v1beta1.SetDefaults_KubeletConfiguration
const reportInterval = 5 * time.Minute

// reports are the times at which the statuses of the nodes are posted next. Its methods may be called from several goroutines at once.
type reports struct {
	mu   sync.Mutex
	next map[string]time.Time
}

func newReports() *reports { return &reports{next: map[string]time.Time{}} }

// due reports whether the status of a node is to be posted although it has not changed. The controller that starts goes by the last
// heartbeat of the node.
//
//upstream:pkg/kubelet.Kubelet.isUpdateStatusPeriodExpired
func (r *reports) due(node *corev1.Node, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.next[node.Name]; !ok {
		last := now
		if c := nodestate.Condition(node, corev1.NodeReady); c != nil && c.LastHeartbeatTime.Time.Before(now) { // else the clock was ahead
			last = c.LastHeartbeatTime.Time
		}
		r.next[node.Name] = last.Add(reportInterval + delay(node.Name))
	}
	return !now.Before(r.next[node.Name])
}

// set notes that the status of a node is posted now.
//
//upstream:pkg/kubelet.Kubelet.tryUpdateNodeStatus
func (r *reports) set(node string, now time.Time, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := now.Add(reportInterval)
	if changed {
		next = next.Add(delay(node))
	}
	r.next[node] = next
}

func (r *reports) forget(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.next, node)
}

// delay returns the time by which the first post after a change is later or earlier than the interval says, up to half of the interval.
// It spreads the posts of nodes that start together. It depends on the name alone, so that a run in virtual time is the same again.
//
//upstream:pkg/kubelet.Kubelet.calculateDelay
func delay(node string) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(node))
	return time.Duration(h.Sum64()%uint64(reportInterval)) - reportInterval/2
}
