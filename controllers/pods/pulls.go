package pods

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pullBackOff is the back-off of the pulls of an image for a pod. kubelet keys the back-off by both, so the containers of a pod share it.
// The delay doubles with each pull that fails. Neither a success nor another image resets it, but ten minutes without a pull that fails.
//
//upstream:pkg/kubelet/images.imageManager.pullImage
//upstream:k8s.io/client-go/util/flowcontrol.Backoff
type pullBackOff struct {
	failed int32         // pulls
	last   time.Time     // when the last one failed, or when the first pull begins
	delay  time.Duration // until the next pull
}

// next returns when the next pull begins.
func (b *pullBackOff) next() time.Time { return b.last.Add(b.delay) }

// expired reports whether a back-off is forgotten at a time.
func (b *pullBackOff) expired(now time.Time) bool { return now.Sub(b.last) > 2*maxRestart }

// fail notes pulls that have failed, the last one at a time.
func (b *pullBackOff) fail(at time.Time, pulls int32) {
	b.failed, b.last, b.delay = b.failed+pulls, at, min(max(2*b.delay, firstRestart), maxRestart)
}

// until makes the pulls that fail until a time. It makes no more than some of them in all, unless the number is negative.
func (b *pullBackOff) until(now time.Time, all int32) {
	for at := b.next(); (all < 0 || b.failed < all) && !at.After(now); at = b.next() {
		n := int32(1)
		if all < 0 && b.delay == maxRestart {
			n += int32(now.Sub(at) / maxRestart) // of the same delay: a user may write a start in the far past
		}
		b.fail(at.Add(time.Duration(n-1)*maxRestart), n)
	}
}

// pull returns the waiting state of a container while its image is pulled, or nil. changed reports whether the image is another one than
// before, or the container a new one in a pod that runs.
//
//upstream:pkg/kubelet/images.imageManager.EnsureImageExists
func (c *containers) pull(spec *corev1.Container, old *corev1.ContainerStatus, changed bool) *corev1.ContainerStateWaiting {
	script := c.script.container(c.pod, spec)
	p := &PullScript{Failures: -1}
	switch {
	case isMissing(spec.Image, c.missingImages):
	case script == nil || script.Pull == nil || old.State.Running != nil || old.LastTerminationState.Terminated != nil:
		return nil
	default:
		p = script.Pull
	}
	if p.Failures != 0 && spec.ImagePullPolicy == corev1.PullNever {
		return &corev1.ContainerStateWaiting{Reason: errImageNeverPull,
			Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", spec.Image)}
	}
	was := ""
	if old.State.Waiting != nil && !changed {
		was = old.State.Waiting.Reason
	}
	begin, tried := c.pullUntilNow(spec.Image, later(c.pulledSince, old.LastTerminationState.Terminated), p.Failures, was, changed)
	if left := begin.Sub(c.now.Time); left > 0 {
		c.until(left)
		return pullFailure(spec, tried, cmp.Or(p.Message, pullError(spec.Image)))
	}
	if left := begin.Add(jittered(c.pod, p.Duration, p.Jitter, spec.Name, "pull")).Sub(c.now.Time); left > 0 {
		c.until(left)
		if failsToPull(was) {
			return old.State.Waiting // until the pull has succeeded
		}
		return &corev1.ContainerStateWaiting{Reason: c.initialReason()}
	}
	if c.pulls[spec.Image].failed == 0 {
		delete(c.pulls, spec.Image)
	}
	return nil
}

// pullUntilNow makes the pulls of an image until now that fail: some of them, or all if the number is negative. It returns when the next
// pull begins, and whether one has failed that the status does not show. The container needs the image since some time, and
// was is the reason for which it waits already.
func (c *containers) pullUntilNow(image string, since time.Time, failures int32, was string, changed bool) (next time.Time, tried bool) {
	if changed {
		since = c.now.Time
	}
	b, known := c.pulls[image]
	switch begin := b.next(); {
	case !known || since.After(begin) && b.expired(since):
		b = pullBackOff{last: since}
	case since.After(begin):
		b.last = since.Add(-b.delay) // nothing needed the image meanwhile
	}
	failed := b.failed
	b.until(c.now.Time, failures)
	if c.pulls == nil {
		c.pulls = map[string]pullBackOff{}
	}
	c.pulls[image] = b
	return b.next(), b.failed > failed && (known || !failsToPull(was))
}

// expirePulls forgets the back-offs that have expired, and returns the other ones, which the caller may change.
func expirePulls(pulls map[string]pullBackOff, now time.Time) map[string]pullBackOff {
	pulls = maps.Clone(pulls)
	maps.DeleteFunc(pulls, func(_ string, b pullBackOff) bool { return b.failed > 0 && b.expired(now) })
	return pulls
}

// failsToPull reports whether a container waits for an image for this reason, after a pull that has failed.
func failsToPull(reason string) bool { return reason == errImagePull || reason == imagePullBackOff }

// pullFailure returns the waiting state of a container with an image that cannot be pulled: ErrImagePull for a pull that has
// failed now, and otherwise ImagePullBackOff. message is the error.
//
//upstream:pkg/kubelet/images.imageManager.EnsureImageExists
//upstream:pkg/kubelet/images.imageManager.pullImage
func pullFailure(spec *corev1.Container, failed bool, message string) *corev1.ContainerStateWaiting {
	if failed {
		return &corev1.ContainerStateWaiting{Reason: errImagePull, Message: message}
	}
	return &corev1.ContainerStateWaiting{Reason: imagePullBackOff,
		Message: fmt.Sprintf("Back-off pulling image %q: %s: %s", spec.Image, errImagePull, message)}
}
