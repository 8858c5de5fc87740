package job

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
)

// The delay before a failed pod is replaced starts with firstBackoff and doubles with each failure, up to maxBackoff.
const (
	//upstream:pkg/controller/job.DefaultJobPodFailureBackOff
	firstBackoff = 10 * time.Second
	//upstream:pkg/controller/job.MaxJobPodFailureBackOff
	maxBackoff = 10 * time.Minute
)

// keptFailures is the number of failures after which the delay is maxBackoff.
const keptFailures = 7

// backoffAfter returns the rest of the delay after a number of failures. last is the time of the last failure.
//
//upstream:pkg/controller/job.getRemainingTimeForFailuresCount
func backoffAfter(failures int, last, now time.Time) time.Duration {
	if failures == 0 {
		return 0
	}
	delay := min(maxBackoff, firstBackoff<<(min(failures, keptFailures)-1))
	return max(0, last.Add(delay).Sub(now))
}

// failure is a pod that has failed.
type failure struct {
	pod types.UID
	at  time.Time
}

// backoff has the last failures of the pods of a Job since the last success, at most keptFailures. It is immutable.
type backoff struct {
	job         types.UID
	lastSuccess time.Time
	failures    []failure // in the order of their times
}

// with returns the backoff after further pods have terminated. Pods that are in b already change nothing.
//
//upstream:pkg/controller/job.backoffStore.newBackoffRecord
func (b backoff) with(succeeded, failed []*corev1.Pod) backoff {
	for _, p := range succeeded {
		if at := finishTime(p); at.After(b.lastSuccess) {
			b.lastSuccess = at
		}
	}
	all := slices.Clone(b.failures)
	for _, p := range failed {
		all = slices.DeleteFunc(all, func(f failure) bool { return f.pod == p.UID })
		all = append(all, failure{p.UID, finishTime(p)})
	}
	all = slices.DeleteFunc(all, func(f failure) bool { return !f.at.After(b.lastSuccess) })
	slices.SortFunc(all, func(x, y failure) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.pod, y.pod)) })
	b.failures = all[max(0, len(all)-keptFailures):]
	return b
}

// remaining returns the time until a pod may be created.
//
//upstream:pkg/controller/job.backoffRecord.getRemainingTime
func (b backoff) remaining(now time.Time) time.Duration {
	n := len(b.failures)
	if n == 0 {
		return 0
	}
	return backoffAfter(n, b.failures[n-1].at, now)
}

// backoffs has the backoffs of the Jobs. They keep the failures of pods that are counted or gone. A restart forgets them.
//
//upstream:pkg/controller/job.backoffStore
type backoffs struct {
	mu sync.Mutex
	of map[types.NamespacedName]backoff
}

// update updates the backoff of a Job, and returns it.
func (b *backoffs) update(key types.NamespacedName, o *observation) backoff {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.of[key]
	if old.job != o.job.UID {
		old = backoff{job: o.job.UID}
	}
	updated := old.with(o.newSucceeded, o.newFailed)
	b.of[key] = updated
	return updated
}

// forget deletes the backoff of a Job.
func (b *backoffs) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, key)
}

// finishTime returns the time at which a pod terminated: the end of its last container, or else the time at which it
// became unready or was deleted.
//
//upstream:pkg/controller/job.getFinishedTime
func finishTime(p *corev1.Pod) time.Time {
	if at := containersFinished(p); !at.IsZero() {
		return at
	}
	if c := podstate.Condition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse &&
		!c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if p.DeletionTimestamp != nil {
		grace := time.Duration(ptr.Deref(p.DeletionGracePeriodSeconds, 0)) * time.Second
		return p.DeletionTimestamp.Add(-grace)
	}
	return p.CreationTimestamp.Time
}

// containersFinished returns the time at which the last container of a pod terminated, sidecars included, or the zero
// time if a container has not terminated.
//
//upstream:pkg/controller/job.getFinishTimeFromContainers
func containersFinished(p *corev1.Pod) (last time.Time) {
	statuses := slices.Clone(p.Status.ContainerStatuses)
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if !podstate.IsSidecar(c) {
			continue
		}
		for _, s := range p.Status.InitContainerStatuses {
			if s.Name == c.Name {
				statuses = append(statuses, s)
			}
		}
	}
	for _, s := range statuses {
		if s.State.Terminated == nil || s.State.Terminated.FinishedAt.IsZero() {
			return time.Time{}
		}
		if at := s.State.Terminated.FinishedAt.Time; at.After(last) {
			last = at
		}
	}
	return last
}
