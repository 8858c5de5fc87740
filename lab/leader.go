package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/internal/protobuf"
)

// leadership is what a process has learned about the Lease of the operator.
type leadershipOf struct {
	identity string        // that the process writes as the holder
	object   string        // the namespace and name of the Lease
	leads    bool          // the server has confirmed it
	lost     bool          // the server has shown another holder since
	renewed  time.Duration // virtual time of the last confirmation
	duration time.Duration // of the Lease
}

// holderOf returns the holder of an encoded Lease, and the duration of the Lease.
func holderOf(content []byte) (holder string, duration time.Duration) {
	lease := &coordinationv1.Lease{}
	if bytes.HasPrefix(content, protobufPrefix) {
		if lease.Unmarshal(protobuf.First(bytes.TrimPrefix(content, protobufPrefix), fieldRaw)) != nil {
			return "", 0
		}
	} else if json.Unmarshal(content, lease) != nil {
		return "", 0
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// observeLease learns from a request for a Lease and its response.
func (w *world) observeLease(p *process, a *action, body []byte, response *http.Response) {
	content, err := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(content))
	if err != nil {
		return
	}
	if sent, _ := holderOf(body); a.isWrite() && sent != "" {
		p.lease.identity, p.lease.object = sent, a.object
	}
	holder, duration := holderOf(content)
	if response.StatusCode >= 300 || duration == 0 || p.lease.identity == "" {
		return
	}
	switch {
	case holder != p.lease.identity:
		p.lease.lost = p.lease.leads
	case a.isWrite():
		p.lease.leads, p.lease.lost, p.lease.renewed = true, false, w.now()
		p.lease.duration = duration
	}
}

// checkLeader checks that a process that writes leads, as far as it can know.
func (w *world) checkLeader(a *action) {
	l := &a.process.lease
	since := w.now() - l.renewed
	switch {
	case !l.leads || l.identity == "" || since <= l.duration:
		// A leader may try to renew its Lease until the Lease has expired, also when somebody has taken it.
	case l.lost:
		w.find(leadership, "%s has lost its Lease, which it renewed %s ago, to somebody else, and still sends: %s", a.process.name, age(since), a.name())
	default:
		w.find(leadership, "%s could not renew its Lease for %s, which is longer than the Lease, and still sends: %s", a.process.name, age(since), a.name())
	}
}

// holders returns the identities of the processes of the operator.
func (w *world) holders() (all []string) {
	for _, p := range w.all {
		if p.lease.identity != "" {
			all = append(all, p.lease.identity)
		}
	}
	return all
}

// deposed reports whether a process has lost its Lease, after which its manager ends with an error.
func (w *world) deposed(p *process) bool { return p.lease.leads }

// locks are the objects other than Leases that operators use for leader election, by resource, namespace and name.
type locks struct {
	mu    sync.Mutex
	known map[string]bool
}

// lockResources are the resources of such objects, with their prefixes in the storage.
var lockResources = map[string]string{"configmaps": "/registry/configmaps/", "endpoints": "/registry/services/endpoints/"}

// lockKinds are the kinds of such objects.
var lockKinds = map[string]string{"configmaps": "ConfigMap", "endpoints": "Endpoints"}

// has reports whether an action is about a lock. The body of a request tells a lock that the lab has not seen before.
func (l *locks) has(a *action, body []byte) bool {
	if lockResources[a.resource] == "" || a.process.cluster {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := a.resource + " " + a.object
	if bytes.Contains(body, []byte(resourcelock.LeaderElectionRecordAnnotationKey)) {
		if l.known == nil {
			l.known = map[string]bool{}
		}
		l.known[key] = true
	}
	return l.known[key]
}

// isLock reports whether a stored object is a lock.
func (l *locks) isLock(key string, value []byte) bool {
	for _, prefix := range lockResources {
		if strings.HasPrefix(key, prefix) {
			return bytes.Contains(value, []byte(resourcelock.LeaderElectionRecordAnnotationKey))
		}
	}
	return false
}

// all returns the resource, the namespace and the name of each lock.
func (l *locks) all() [][3]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all [][3]string
	for key := range l.known {
		resource, object, _ := strings.Cut(key, " ")
		namespace, name, _ := strings.Cut(object, "/")
		all = append(all, [3]string{resource, namespace, name})
	}
	return all
}

// heldLeases returns the Leases that processes of the operator hold.
func (w *world) heldLeases(ctx context.Context) (held []coordinationv1.Lease, err error) {
	names := map[string]bool{}
	for _, p := range w.all {
		names[p.lease.object] = p.lease.identity != ""
	}
	holders := w.holders()
	for _, object := range slices.Sorted(maps.Keys(names)) {
		namespace, name, _ := strings.Cut(object, "/")
		l := coordinationv1.Lease{}
		if !names[object] {
			continue
		}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &l); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if slices.Contains(holders, ptr.Deref(l.Spec.HolderIdentity, "")) {
			held = append(held, l)
		}
	}
	return held, nil
}

// unlock lets go of all locks and Leases of the operator, as when they had expired. Otherwise each restart of a program
// would wait for that.
func (w *world) unlock() {
	ctx := context.Background()
	leases, err := w.heldLeases(ctx)
	if err != nil {
		return // the next holder waits
	}
	for i := range leases {
		leases[i].Spec.HolderIdentity = ptr.To("")
		_ = w.client.Update(ctx, &leases[i]) // the next holder waits
	}
	for _, lock := range w.locks.all() {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: lock[1], Name: lock[2]}}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(lockKinds[lock[0]]))
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"{}"}}}`, resourcelock.LeaderElectionRecordAnnotationKey)
		_ = w.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}
