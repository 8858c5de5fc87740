package pods

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"flyball.dev/controllers/internal/podstate"
)

// Options configure the behaviour of pods. With the zero value, a pod whose images can be pulled is ready
// at once.
type Options struct {
	// Delay is the time from a pod's being bound to its being ready.
	Delay time.Duration
	// Jitter is added to the delay, between nothing and all of it; how much depends on the pod's UID.
	Jitter time.Duration
	// MissingImages are patterns of images that cannot be pulled, in which * stands for any characters.
	// A container with such an image waits with ErrImagePull and then ImagePullBackOff until its image
	// is changed. Nil means [DefaultMissingImages]; an empty list means that every image can be pulled.
	MissingImages []string
	// Network is the IPv4 network of the pods' addresses. By default it is [DefaultNetwork]. When it is
	// exhausted, further pods stay Pending until another pod terminates or is deleted.
	Network netip.Prefix
}

// DefaultNetwork has room for 8 million pods, beside the services' 10.96.0.0/12.
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

// noAddress is the message of a pod without an address, as from kubelet.
func (o *Options) noAddress() string {
	return fmt.Sprintf("Failed to create pod sandbox: no IP addresses available in %s", o.network())
}

// OutcomeAnnotation on a pod makes its containers end, or not become ready; without it, they run.
const OutcomeAnnotation = "flyball.dev/outcome"

// The values of the outcome annotation.
const (
	NeverReady = "NeverReady" // its containers run, but are not ready
	Succeeded  = "Succeeded"  // its containers run to their end
	Failed     = "Failed"     // its containers end with an error
)

// mine reports whether this controller is responsible for a pod: those on the node, and those that are
// deleted before they are bound.
func mine(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == NodeName || pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil
}

// lives reports whether a pod on the node is neither terminating nor terminated, and so needs an address.
func lives(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !podstate.Finished(pod) }

// step is the next change of a pod.
type step struct {
	remove bool              // the deletion is complete
	status *corev1.PodStatus // to be written, if not nil
	after  time.Duration     // to be reconciled again, if not zero
}

// next returns the next change of a pod. ip is its address, empty if none is free.
func next(pod *corev1.Pod, ip string, o *Options, now time.Time) step {
	switch {
	case pod.DeletionTimestamp != nil:
		return step{remove: grace(pod) > 0}
	case !lives(pod):
		return step{}
	}
	up, after := hasStarted(pod, o, now)
	status := statusOf(pod, up, ip, o, now)
	if equality.Semantic.DeepEqual(status, pod.Status) {
		return step{after: after}
	}
	return step{status: &status, after: after}
}

// grace is the grace period of a terminating pod, in seconds.
func grace(pod *corev1.Pod) int64 {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return *pod.DeletionGracePeriodSeconds
}

// hasStarted reports whether the delay of a bound pod is over, and if not, how much of it is left.
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
