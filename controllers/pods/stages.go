package pods

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
)

// Options configure the behaviour of pods. With the zero value, a pod is ready immediately if its images can be pulled.
type Options struct {
	// Delay is the time between the binding of a pod and its readiness.
	Delay time.Duration
	// Jitter is the maximum time that is added to the delay. The time depends on the UID of the pod.
	Jitter time.Duration
	// MissingImages are patterns of images that cannot be pulled. In a pattern, * matches any characters. A container
	// with such an image waits with ErrImagePull and then ImagePullBackOff until its image is changed. Nil means
	// [DefaultMissingImages]; an empty list means that every image can be pulled.
	MissingImages []string
	// Network is the IPv4 network of the pods' addresses. By default it is [DefaultNetwork]. When
	// it is exhausted, further pods stay Pending until another pod terminates or is deleted.
	Network netip.Prefix
}

// DefaultNetwork has room for 8 million pods, and does not overlap the services' 10.96.0.0/12.
var DefaultNetwork = netip.MustParsePrefix("10.128.0.0/9")

func (o *Options) missingImages() []string {
	if o.MissingImages == nil {
		return DefaultMissingImages
	}
	return o.MissingImages
}

func (o *Options) network() netip.Prefix {
	if !o.Network.IsValid() {
		return DefaultNetwork
	}
	return o.Network
}

// noAddress returns the message for a pod without an address, as from kubelet.
func (o *Options) noAddress() string {
	return fmt.Sprintf("Failed to create pod sandbox: no IP addresses available in %s", o.network())
}

// Annotations that control the containers of a pod, because nothing executes their commands. Users may change them
// while the pod runs.
const (
	// OutcomeAnnotation selects whether containers run or terminate. The default is [Succeeded] for the pods of Jobs,
	// and [Running] for all others.
	OutcomeAnnotation = "flyball.dev/outcome"
	// DurationAnnotation is how long containers run before they terminate, such as 90s or 1h30m. By default they
	// terminate immediately.
	DurationAnnotation = "flyball.dev/duration"
	// ExitCodeAnnotation is the exit code of failing containers, from 1 to 255; the default is 1. Containers without
	// [OutcomeAnnotation] fail if it is set.
	ExitCodeAnnotation = "flyball.dev/exit-code"
)

// The values of the outcome annotation. Terminated containers are restarted according to their restart policy, with the
// kubelet's back-off: immediately after the first failure, and then after 10 s, 20 s and so on up to 5 min. While they
// wait, the reason is CrashLoopBackOff. A run of 10 minutes resets the back-off.
const (
	Running    = "Running"    // its containers run, and are ready
	NeverReady = "NeverReady" // its containers run, but are not ready
	Succeeded  = "Succeeded"  // its containers terminate successfully
	Failed     = "Failed"     // its containers fail
)

// isResponsible reports whether this controller handles a pod: the pod is bound to the node, or was deleted before it
// was bound.
func isResponsible(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == NodeName || pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil
}

// Simulated reports whether a pod is on the simulated node, so that no container runs.
func Simulated(pod *corev1.Pod) bool { return pod.Spec.NodeName == NodeName }

// step is the next change of a pod.
type step struct {
	remove bool              // delete the pod without a grace period
	status *corev1.PodStatus // update the status, if not nil
	after  time.Duration     // reconcile it again after that time, if not zero
}

// provision is the set of resources that the node has for a pod.
type provision struct {
	ip      string            // its address, "" if none is free
	mounted bool              // its volumes are there
	config  map[string]string // by container, the error in its configuration
}

// next returns the next step of a pod.
func next(pod *corev1.Pod, given provision, o *Options, now time.Time) step {
	switch {
	case pod.DeletionTimestamp != nil:
		if len(pod.Finalizers) > 0 && pod.Spec.NodeName != "" && !podstate.Finished(pod) {
			status := killedStatus(pod, now)
			return step{status: &status} // whoever has a finalizer may wait for that
		}
		// Without a grace period and finalizers its deletion was interrupted, perhaps by the end of the server.
		return step{remove: grace(pod) > 0 || len(pod.Finalizers) == 0}
	case podstate.Finished(pod):
		return step{}
	}
	if left, ok := untilDeadline(pod, &pod.Status, now); ok && left <= 0 {
		status := overdueStatus(pod, now)
		return step{status: &status}
	}
	started, after := hasStarted(pod, o, now)
	status := statusOf(pod, started && given.mounted, given, o, now)
	after = cmp.Or(after, untilChange(pod, &status, now))
	if left, ok := untilDeadline(pod, &status, now); ok && (after == 0 || left < after) {
		after = left
	}
	if equality.Semantic.DeepEqual(status, pod.Status) {
		return step{after: after}
	}
	return step{status: &status, after: after}
}

// grace returns the grace period of a terminating pod, in seconds.
func grace(pod *corev1.Pod) int64 { return ptr.Deref(pod.DeletionGracePeriodSeconds, 0) }

// hasStarted reports whether the delay of a bound pod has passed, and returns the remaining delay.
func hasStarted(pod *corev1.Pod, o *Options, now time.Time) (ok bool, after time.Duration) {
	delay := o.Delay
	if o.Jitter > 0 {
		h := fnv.New64a()
		h.Write([]byte(pod.UID))
		delay += time.Duration(h.Sum64() % uint64(o.Jitter))
	}
	if delay <= 0 {
		return true, 0
	}
	since := now
	if pod.Status.StartTime != nil {
		since = pod.Status.StartTime.Time
	}
	left := since.Add(delay).Sub(now)
	return left <= 0, max(left, 0)
}
