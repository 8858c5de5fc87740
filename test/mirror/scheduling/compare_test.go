package scheduling

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"flyball.dev/controllers/scheduler/framework"
	"flyball.dev/test/mirror/random"
)

// explanation is how the nodes of a world come off.
type explanation struct {
	rejected map[string]rejection
	scores   map[string]map[string]int64 // by plugin and node; zeros are left out
	totals   map[string]int64
}

type rejection struct {
	reasons      []string
	unresolvable bool
}

func newExplanation() explanation {
	return explanation{rejected: map[string]rejection{}, scores: map[string]map[string]int64{}, totals: map[string]int64{}}
}

func (e *explanation) reject(node string, reasons []string, unresolvable bool) {
	reasons = slices.Clone(reasons)
	slices.Sort(reasons)
	e.rejected[node] = rejection{reasons, unresolvable}
}

func (e *explanation) score(plugin, node string, score int64) {
	if score == 0 {
		return
	}
	if e.scores[plugin] == nil {
		e.scores[plugin] = map[string]int64{}
	}
	e.scores[plugin][node] = score
}

// decision is the outcome of scheduling a pod.
type decision struct {
	node      string
	message   string
	nominated string
	victims   []string
}

var preempting = regexp.MustCompile(`found a potential placement for pod on node (\S+), preempting (\d+) victims`)

// announced returns the node and the number of victims in a message.
func announced(message string) (node string, victims int) {
	if m := preempting.FindStringSubmatch(message); m != nil {
		victims, _ = strconv.Atoi(m[2])
		return m[1], victims
	}
	return "", 0
}

func (u *theirs) logger() klog.Logger { return klog.Background() }

// TestScheduling schedules a pod in each world.
func TestScheduling(t *testing.T) {
	u := newTheirs(t)
	seen := random.Seen{}
	random.Compare(t, 5000, func(s *random.Source) {
		w := newWorld(s)
		u.set(t, w)
		snapshot := w.snapshot()
		report := func(format string, args ...any) {
			t.Errorf(format, args...)
			t.Log(w.text())
		}
		if len(w.nodes) >= 20 {
			seen["20 nodes or more"]++
		}
		if len(w.nominated) > 1 {
			seen["several nominated pods"]++
		}
		want, have := u.explain(t.Context(), w.pod), ours(snapshot.Explain(w.pod))
		for node, r := range want.rejected {
			for _, reason := range r.reasons {
				seen[reason]++
			}
			if o, ok := have.rejected[node]; !ok || !slices.Equal(o.reasons, r.reasons) || o.unresolvable != r.unresolvable {
				report("node %s: ours says %v, theirs %v", node, have.rejected[node], r)
				return
			}
		}
		if len(have.rejected) > len(want.rejected) {
			report("ours rejects %v, theirs %v", slices.Sorted(maps.Keys(have.rejected)), slices.Sorted(maps.Keys(want.rejected)))
			return
		}
		for _, plugin := range scorers {
			if len(want.scores[plugin]) > 0 && distinct(want.scores[plugin]) {
				seen[plugin]++
			}
			if !maps.Equal(want.scores[plugin], have.scores[plugin]) {
				report("%s: ours scores %v, theirs %v", plugin, have.scores[plugin], want.scores[plugin])
				return
			}
		}
		w.candidates = snapshot.Explain(w.pod).Candidates
		compareDecisions(w, seen, report, want, ourDecision(snapshot, w.pod), u.schedule(t, w))
	})
	seen.Require(t, append(scorers, outcomes...)...)
}

// distinct reports whether a plugin prefers a node to another.
func distinct(scores map[string]int64) bool {
	first := int64(-1)
	for _, s := range scores {
		if first >= 0 && s != first {
			return true
		}
		first = s
	}
	return false
}

func ours(e framework.Explanation) explanation {
	x := newExplanation()
	for node, s := range e.Rejected {
		x.reject(node, s.Reasons, s.Unresolvable)
	}
	for plugin, scores := range e.Scores {
		for node, score := range scores {
			x.score(plugin, node, score)
		}
	}
	return x
}

func ourDecision(s *framework.Snapshot, pod *corev1.Pod) decision {
	o := s.Schedule(pod)
	d := decision{node: o.Node, message: o.Message, victims: remaining(o.Victims)}
	if o.Error != nil {
		d.message = o.Error.Error()
	}
	if len(o.Victims) > 0 {
		d.nominated = *o.Nomination
	}
	return d
}

func remaining(pods []*framework.Pod) (list []string) {
	for _, p := range pods {
		if !p.Terminating {
			list = append(list, p.Name)
		}
	}
	slices.Sort(list)
	return list
}

func compareDecisions(w *world, seen random.Seen, report func(string, ...any), scores explanation, have, want decision) {
	switch {
	case want.node != "" && w.pod.Status.NominatedNodeName == want.node:
		seen["nominated node"]++
		if have.node != want.node {
			report("ours is %+v, theirs has the nominated node %s", have, want.node)
		}
	case want.node != "":
		seen["scheduled"]++
		best := slices.Max(slices.Collect(maps.Values(scores.totals)))
		if have.node == "" || scores.totals[have.node] != best {
			report("ours is %+v, theirs is %s; scores %v", have, want.node, scores.totals)
		}
	case want.nominated != "":
		seen["preempted"]++
		if len(want.victims) > 1 {
			seen["several victims"]++
		}
		victims, ok := w.candidates[want.nominated]
		if !ok || !slices.Equal(remaining(victims), want.victims) {
			report("theirs evicts %v from %s, ours %v", want.victims, want.nominated, w.victims())
		}
		if o, ok := w.candidates[have.nominated]; !ok || !slices.Equal(remaining(o), have.victims) {
			report("ours evicts %v from %s, which is not a candidate: %v", have.victims, have.nominated, w.victims())
		}
		if have.nominated == want.nominated && have.message != want.message || preempting.ReplaceAllString(have.message, "") != preempting.ReplaceAllString(want.message, "") {
			report("our message is\n%s\n%s", have.message, want.message)
		}
	default:
		seen["pending"]++
		if have.message != want.message {
			report("our message is\n%s\n%s", have.message, want.message)
		}
	}
}
