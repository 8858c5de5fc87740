package kubelettest

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

//go:embed recorded.txt
var recordedFile string

// History is the statuses and the events of a pod, in their order.
type History struct {
	changes  []change
	now      map[string]string // the last status: the values of the tracks
	statuses int
	events   []fact
}

// fact is the value of a track, or an event about a container.
type fact struct{ track, value string }

// change is a fact of a status.
type change struct {
	number int
	fact
}

// absent is the value of a track that a status does not have.
const absent = "-"

// Observe adds a status of the pod, unless it is the last one.
func (h *History) Observe(pod *corev1.Pod) {
	next := tracks(pod)
	if maps.Equal(next, h.now) {
		return
	}
	h.add(next)
}

// Deleted adds that the pod is gone.
func (h *History) Deleted() {
	next := maps.Clone(h.now)
	next["exists"] = "false"
	h.add(next)
}

func (h *History) add(next map[string]string) {
	h.statuses++
	for track := range h.now {
		if _, ok := next[track]; !ok {
			next[track] = absent
		}
	}
	for _, track := range slices.Sorted(maps.Keys(next)) {
		if next[track] != h.now[track] && (next[track] != absent || h.now[track] != "") {
			h.changes = append(h.changes, change{h.statuses, fact{track, next[track]}})
		}
	}
	h.now = next
}

// Event adds an event. The field path names a container, or is empty.
func (h *History) Event(pod *corev1.Pod, fieldPath, typ, reason, message string) {
	h.events = append(h.events, fact{trackOf(fieldPath), fmt.Sprintf("%s %s: %s", typ, reason, general(pod, message))})
}

// trackOf returns the name of a container by its field path.
func trackOf(fieldPath string) string {
	for prefix, kind := range map[string]string{"spec.containers{": "container ", "spec.initContainers{": "init ", "spec.ephemeralContainers{": "ephemeral "} {
		if name, ok := strings.CutPrefix(fieldPath, prefix); ok {
			return kind + strings.TrimSuffix(name, "}")
		}
	}
	return "pod"
}

// tracks returns the parts of a status.
func tracks(pod *corev1.Pod) map[string]string {
	s := &pod.Status
	all := map[string]string{"phase": strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Phase, s.Reason, quoted(pod, s.Message)))}
	if s.PodIP != "" {
		all["podIP"] = "set"
	}
	if s.StartTime != nil {
		all["startTime"] = "set"
	}
	for _, c := range s.Conditions {
		all["condition "+string(c.Type)] = strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, quoted(pod, c.Message)))
	}
	for kind, list := range map[string][]corev1.ContainerStatus{
		"init": s.InitContainerStatuses, "container": s.ContainerStatuses, "ephemeral": s.EphemeralContainerStatuses,
	} {
		for i := range list {
			track := kind + " " + list[i].Name
			if isSidecar(pod, list[i].Name) {
				track = "sidecar " + list[i].Name
			}
			all[track] = describe(pod, &list[i])
		}
	}
	return all
}

// isSidecar reports whether a container of a pod is a sidecar.
func isSidecar(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// describe returns the text of the status of a container.
func describe(pod *corev1.Pod, s *corev1.ContainerStatus) string {
	parts := []string{state(pod, s.State)}
	add := func(ok bool, text string) {
		if ok {
			parts = append(parts, text)
		}
	}
	add(s.Ready, "ready")
	add(s.Started != nil && *s.Started, "started")
	add(s.Started != nil && !*s.Started, "not started")
	add(s.RestartCount > 0, fmt.Sprintf("restarts %d", s.RestartCount))
	add(s.LastTerminationState != corev1.ContainerState{}, "last "+state(pod, s.LastTerminationState))
	add(s.ContainerID != "", "containerID")
	add(s.ImageID != "", "imageID")
	add(s.Resources != nil, "resources")
	add(s.AllocatedResources != nil, "allocatedResources")
	add(s.Image != "", "of "+s.Image)
	return strings.Join(parts, ", ")
}

// state returns the text of the state of a container.
func state(pod *corev1.Pod, s corev1.ContainerState) string {
	var text string
	switch {
	case s.Running != nil:
		text = "running"
	case s.Waiting != nil:
		text = fmt.Sprintf("waiting %s %s", s.Waiting.Reason, quoted(pod, s.Waiting.Message))
	case s.Terminated != nil:
		text = fmt.Sprintf("terminated %d %s %s", s.Terminated.ExitCode, s.Terminated.Reason, quoted(pod, s.Terminated.Message))
		if s.Terminated.StartedAt.IsZero() {
			text += " without times"
		}
	}
	return strings.TrimSpace(text)
}

// quoted returns a message in quotes, or "" if there is none.
func quoted(pod *corev1.Pod, message string) string {
	if message == "" {
		return ""
	}
	return fmt.Sprintf("%q", general(pod, message))
}

// pulled is what differs in the messages of pulled images.
var pulled = regexp.MustCompile(`in \S+ \(\S+ including waiting\)\. Image size: \d+ bytes`)

// general returns a message without what differs each time.
func general(pod *corev1.Pod, message string) string {
	message = strings.ReplaceAll(message, fmt.Sprintf("_%s(%s)", pod.Namespace, pod.UID), "_NAMESPACE(UID)")
	if ip := pod.Status.PodIP; ip != "" {
		message = strings.ReplaceAll(message, ip, "IP")
	}
	return pulled.ReplaceAllString(message, "in TIME (TIME including waiting). Image size: N bytes")
}

// String returns the history as in the file.
func (h *History) String() string {
	var b strings.Builder
	for _, c := range h.changes {
		fmt.Fprintf(&b, "%d %s = %s\n", c.number, c.track, escaped(c.value))
	}
	for _, e := range merged(h.events) {
		fmt.Fprintf(&b, "event %s = %s\n", e.track, escaped(e.value))
	}
	return b.String()
}

// escaped returns a value in one line.
func escaped(value string) string { return strings.ReplaceAll(value, "\n", `\n`) }

// merged returns events, grouped by container, without the repetitions of one or two events in a row.
func merged(events []fact) []fact {
	byTrack := map[string][]fact{}
	for _, e := range events {
		list := append(byTrack[e.track], e)
		for n := 1; n <= 2 && 2*n <= len(list); n++ {
			if end := len(list) - n; slices.Equal(list[end-n:end], list[end:]) {
				list = list[:end]
			}
		}
		byTrack[e.track] = list
	}
	var all []fact
	for _, track := range slices.Sorted(maps.Keys(byTrack)) {
		all = append(all, byTrack[track]...)
	}
	return all
}

// Recorded returns the recorded histories by the names of the cases.
func Recorded() (map[string]*History, error) { return Parse(recordedFile) }

// header begins the line with the name of a case.
const header = "=== "

// Parse parses histories.
func Parse(text string) (map[string]*History, error) {
	all := map[string]*History{}
	var h *History
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, header); ok {
			h = &History{}
			all[name] = h
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at, value, ok := strings.Cut(line, " = ")
		first, track, ok2 := strings.Cut(at, " ")
		if h == nil || !ok || !ok2 {
			return nil, fmt.Errorf("%q is not a line of a history", line)
		}
		if first == "event" {
			h.events = append(h.events, fact{track, value})
			continue
		}
		var number int
		if _, err := fmt.Sscan(first, &number); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		h.changes = append(h.changes, change{number, fact{track, value}})
	}
	return all, nil
}

// Format returns the text of histories.
func Format(all map[string]*History) string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s%s\n%s", header, name, all[name])
	}
	return b.String()
}

// all returns the statuses, each with all its tracks.
func (h *History) all() (all []map[string]string) {
	now := map[string]string{}
	for _, c := range h.changes {
		if c.number > len(all) {
			now = maps.Clone(now)
			all = append(all, now)
		}
		now[c.track] = escaped(c.value)
	}
	return all
}

// isPassing reports whether a status is one that kubelet writes because it is about to do something: a later status has another value
// for one of its tracks.
func isPassing(status map[string]string, later []map[string]string) bool {
	for track, value := range status {
		next := ""
		for _, l := range later {
			if l[track] != value {
				next = l[track]
				break
			}
		}
		kind, _, _ := strings.Cut(track, " ")
		switch {
		case next == "":
		case strings.HasPrefix(value, "False PodSandboxNotReady \"no pod sandbox exists\""):
			return true
		case !slices.Contains([]string{"container", "init", "sidecar", "ephemeral"}, kind):
		case strings.HasPrefix(value, "waiting ContainerCreating"), strings.HasPrefix(value, "waiting PodInitializing") && !initializes(status):
			return true
		case strings.HasPrefix(value, "terminated") && !strings.HasPrefix(next, "terminated"):
			return true
		}
	}
	return false
}

// initializes reports whether an init container has started and not completed, or a sidecar has not passed its startup probe.
func initializes(status map[string]string) bool {
	for track, value := range status {
		kind, _, _ := strings.Cut(track, " ")
		waits := strings.HasPrefix(value, "waiting PodInitializing")
		switch {
		case kind == "init" && !waits && !strings.HasPrefix(value, "terminated 0 "),
			kind == "sidecar" && !waits && strings.Contains(value, ", not started"):
			return true
		}
	}
	return false
}

// sequences returns the values of each track, without those that only passing statuses have, and the events of each container.
func (h *History) sequences() map[string][]string {
	sequences := map[string][]string{}
	all := h.all()
	for i, status := range all {
		if isPassing(status, all[i+1:]) {
			continue
		}
		for track, value := range status {
			if list := sequences[track]; len(list) == 0 || list[len(list)-1] != value {
				sequences[track] = append(list, value)
			}
		}
	}
	for _, e := range merged(h.events) {
		track := "event " + e.track
		sequences[track] = append(sequences[track], escaped(e.value))
	}
	return sequences
}

// Compare returns the lines in which a history differs from the recorded one: "track - value" for one that it lacks, and "track +
// value" for one that the recorded history lacks.
func Compare(recorded, got *History) []string {
	want, have := recorded.sequences(), got.sequences()
	all := maps.Clone(want)
	maps.Copy(all, have)
	var lines []string
	for _, track := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, differ(track, want[track], have[track])...)
	}
	return lines
}

// differ returns the lines in which sequences differ, besides a longest common subsequence.
func differ(track string, want, have []string) (lines []string) {
	common := make([][]int, len(want)+1) // the lengths for the ends of the sequences
	for i := range common {
		common[i] = make([]int, len(have)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(have) - 1; j >= 0; j-- {
			if want[i] == have[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(want) || j < len(have) {
		switch {
		case i < len(want) && j < len(have) && want[i] == have[j]:
			i, j = i+1, j+1
		case j == len(have) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, track+" - "+want[i])
			i++
		default:
			lines = append(lines, track+" + "+have[j])
			j++
		}
	}
	return lines
}
