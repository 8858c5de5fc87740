package pods

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// memory is what the controller knows of a pod besides its status. A restart of the controller forgets it.
type memory struct {
	uid    types.UID               // of the pod that the maps are about
	starts map[string]moment       // by container, the exact start of a run that ends by time
	stops  map[string]moment       // by container, when the stop of a changed one began
	pulls  map[string]pullBackOff  // by image, the pulls that the status has shown
	delays map[runKey]restartDelay // the back-offs of the runs that the status has shown
	freed  bool                    // the last status, which the cache may not have yet, has released resources
	stale  bool                    // an object in a volume has changed
}

// isEmpty reports whether nothing is known.
func (m *memory) isEmpty() bool {
	return len(m.starts)+len(m.stops)+len(m.pulls)+len(m.delays) == 0 && !m.freed && !m.stale
}

// memories has the memories of pods. Most pods have none: a memory is made when there is something to know, and forgotten when
// nothing is left. The maps of a memory do not change: a change makes others.
type memories struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]memory
}

// of returns the memory of a pod.
func (m *memories) of(pod *corev1.Pod) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[client.ObjectKeyFromObject(pod)].about(pod.UID)
}

// about returns a memory, without the maps if they are about another pod with the name.
func (m memory) about(uid types.UID) memory {
	if m.uid != uid {
		m = memory{uid: uid, freed: m.freed, stale: m.stale}
	}
	return m
}

// change changes the memory of the pod with a key.
func (m *memories) change(key types.NamespacedName, change func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := m.pods[key]
	change(&is)
	switch {
	case is.isEmpty():
		delete(m.pods, key)
	case m.pods == nil:
		m.pods = map[types.NamespacedName]memory{key: is}
	default:
		m.pods[key] = is
	}
}

// forget forgets a pod.
func (m *memories) forget(key types.NamespacedName) {
	m.change(key, func(m *memory) { *m = memory{} })
}

// with returns a map with another moment.
func with(all map[string]moment, container string, m moment) map[string]moment {
	all = maps.Clone(all)
	if all == nil {
		all = map[string]moment{}
	}
	all[container] = m
	return all
}

// noteStarts notes the exact times of the starts in a status, where the time decides what the container does.
func (r *reconciler) noteStarts(pod *corev1.Pod, s *corev1.PodStatus) {
	script, _ := r.options.scriptOf(pod)
	if script == nil && !hasOutcome(pod) {
		return
	}
	starts := map[string]moment{}
	for spec, status := range statusesOf(pod, s) {
		c := script.container(pod, spec)
		timed := c != nil && len(c.Runs) > 0 || isMain(pod, spec.Name) && outcomeOf(pod).after > 0
		if run := status.State.Running; timed && run != nil && run.StartedAt.Nanosecond() != 0 {
			starts[status.Name] = moment{status.RestartCount, run.StartedAt.Time}
		}
	}
	if len(starts) == 0 {
		return
	}
	r.memories.change(client.ObjectKeyFromObject(pod), func(m *memory) {
		*m = m.about(pod.UID)
		for container, start := range starts {
			m.starts = with(m.starts, container, start)
		}
	})
}

// noteChanges notes when the stops of changed containers begin, and returns the events of the new stops.
func (r *reconciler) noteChanges(pod *corev1.Pod, changes []change) (events []containerEvent) {
	if len(changes) == 0 {
		return nil
	}
	r.memories.change(client.ObjectKeyFromObject(pod), func(m *memory) {
		*m = m.about(pod.UID)
		for _, c := range changes {
			if was, ok := m.stops[c.container]; ok && was.number == c.number {
				continue
			}
			m.stops = with(m.stops, c.container, moment{c.number, c.since})
			events = append(events, containerEvent{fieldPath(pod, c.container), corev1.EventTypeNormal, "Killing", c.message})
		}
	})
	return events
}

// noteWritten notes the pulls of images and the back-offs that the written status of a pod shows, and forgets the stops of earlier runs.
func (r *reconciler) noteWritten(pod *corev1.Pod, pulls map[string]pullBackOff, delays map[runKey]restartDelay) {
	r.memories.change(client.ObjectKeyFromObject(pod), func(m *memory) {
		*m = m.about(pod.UID)
		if m.pulls, m.delays = pulls, shownDelays(&pod.Status, delays); len(m.stops) == 0 {
			return
		}
		all := allContainers(&pod.Status)
		m.stops = maps.Clone(m.stops)
		maps.DeleteFunc(m.stops, func(container string, stop moment) bool { return find(all, container).RestartCount > stop.number })
	})
}

// noteEnd forgets everything of no use after the end of a pod.
func (r *reconciler) noteEnd(pod *corev1.Pod) {
	r.memories.change(client.ObjectKeyFromObject(pod), func(m *memory) { *m = memory{freed: m.freed} })
}

// noteFreed notes whether the last status of a pod has released resources, and reports whether the one before had.
func (r *reconciler) noteFreed(key types.NamespacedName, freed bool) (before bool) {
	r.memories.change(key, func(m *memory) { before, m.freed = m.freed, freed })
	return before
}

// noteStale notes whether an object in a volume of a pod has changed, and reports whether that was noted before.
func (r *reconciler) noteStale(key types.NamespacedName, stale bool) (before bool) {
	r.memories.change(key, func(m *memory) { before, m.stale = m.stale, stale })
	return before
}
