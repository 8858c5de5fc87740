package daemonset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Unix(1_000_000, 0)

// newSet returns a DaemonSet with a template that has the hash "new".
func newSet(change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", Generation: 3},
		Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: share("1"), MaxSurge: share("0")}}},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

func share(s string) *intstr.IntOrString {
	v := intstr.Parse(s)
	return &v
}

func unavailable(n string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = share(n) }
}

func surge(n string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: share("0"), MaxSurge: share(n)}
	}
}

func minReady(set *appsv1.DaemonSet) { set.Spec.MinReadySeconds = 60 }

// newPods returns pods from their descriptions, such as "a old ready": the node, the hash of the template and the states.
// The name of a pod is its node and its place in the list, which is also its age.
func newPods(descriptions ...string) (pods []*corev1.Pod) {
	for i, d := range descriptions {
		words := strings.Fields(d)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(words[0], i),
			CreationTimestamp: metav1.NewTime(now.Add(time.Duration(i-100) * time.Hour)), Labels: map[string]string{hashLabel: words[1]}},
			Spec: corev1.PodSpec{NodeName: words[0]}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		for _, state := range words[2:] {
			switch state {
			case "ready", "just-ready":
				since := now.Add(-time.Hour)
				if state == "just-ready" {
					since = now.Add(-20 * time.Second)
				}
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
			case "deleted":
				p.DeletionTimestamp = &metav1.Time{Time: now}
			case "failed":
				p.Status.Phase = corev1.PodFailed
			case "succeeded":
				p.Status.Phase = corev1.PodSucceeded
			case "unbound":
				p.Spec.NodeName = ""
				p.Spec.Affinity = newObserved(newSet(), "", nil, nil, now).newPod(words[0]).Spec.Affinity
			default:
				panic(state)
			}
		}
		pods = append(pods, p)
	}
	return pods
}

// newNodes returns nodes from their names. A taint follows the name: a:NoSchedule.
func newNodes(names ...string) (nodes []*corev1.Node) {
	for _, n := range names {
		name, effect, tainted := strings.Cut(n, ":")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
		if tainted {
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffect(effect)}}
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// describe returns the nodes that get a pod, and the pods that are deleted.
func (p plan) describe() string {
	var words []string
	for _, n := range p.create {
		words = append(words, "+"+n)
	}
	for _, pod := range p.delete {
		words = append(words, "-"+pod.Name)
	}
	return strings.Join(words, " ")
}

func TestManagePlan(t *testing.T) {
	abc := []string{"a", "b", "c"}
	for _, tt := range []struct {
		name    string
		set     *appsv1.DaemonSet
		nodes   []string
		pods    []string
		backoff time.Duration
		want    string
		events  string
	}{
		{name: "a pod for each node", set: newSet(), nodes: abc, pods: []string{"b new"}, want: "+a +c"},
		{name: "nothing to do", set: newSet(), nodes: abc, pods: []string{"a new", "b old", "c new deleted"}},
		{name: "the taint NoSchedule keeps new pods away", set: newSet(), nodes: []string{"a:NoSchedule", "b:NoSchedule"}, pods: []string{"b new"}},
		{name: "the taint NoExecute removes pods", set: newSet(), nodes: []string{"a:NoExecute", "b:NoExecute", "c:PreferNoSchedule"},
			pods: []string{"b new", "b new deleted"}, want: "+c -b0"},
		{name: "the pods of the template's node", set: newSet(func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.NodeName = "b" }), nodes: abc,
			pods: []string{"a new"}, want: "+b -a0"},
		{name: "the pods of selected nodes", set: newSet(func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"name": "c"} }),
			nodes: abc, pods: []string{"a new"}, want: "+c -a0"},
		{name: "bound pods of nodes that are gone are left to the pod garbage collector", set: newSet(), nodes: []string{"a"},
			pods: []string{"a new", "gone new", "gone new unbound"}, want: "-gone2"},
		{name: "of several pods on a node the oldest stays", set: newSet(), nodes: []string{"a"}, pods: []string{"a old", "a new", "a new"}, want: "-a1 -a2"},
		{name: "of several pods on a node a bound one stays", set: newSet(), nodes: []string{"a"}, pods: []string{"a old unbound", "a new"}, want: "-a0"},
		{name: "pods that have terminated", set: newSet(), nodes: abc, pods: []string{"a new failed", "b new succeeded", "c new failed deleted"}, want: "+c -a0 -b1",
			events: "Warning FailedDaemonPod, Normal SucceededDaemonPod"},
		{name: "failed pods in back-off", set: newSet(), nodes: []string{"a", "b"}, pods: []string{"a new failed", "b new succeeded"}, backoff: time.Minute,
			want: "-b1", events: "Normal SucceededDaemonPod"},

		{name: "surge: both pods stay while the new one is not available", set: newSet(surge("1")), nodes: []string{"a"}, pods: []string{"a old ready", "a new"}},
		{name: "surge: the new pod is available", set: newSet(surge("1")), nodes: []string{"a"}, pods: []string{"a old ready", "a new ready"}, want: "-a0"},
		{name: "surge: the new pod is ready, but not for long enough", set: newSet(surge("1"), minReady), nodes: []string{"a"},
			pods: []string{"a old ready", "a new just-ready"}},
		{name: "surge: the old pod is not ready", set: newSet(surge("1")), nodes: []string{"a"}, pods: []string{"a old", "a new"}, want: "-a0"},
		{name: "surge: the oldest of each template stay", set: newSet(surge("1")), nodes: []string{"a"},
			pods: []string{"a old ready", "a older ready", "a new", "a new", "a old"}, want: "-a1 -a3 -a4"},
		{name: "surge: only pods that are being deleted", set: newSet(surge("1")), nodes: []string{"a", "b:NoSchedule"},
			pods: []string{"a old ready deleted", "b old ready deleted"}, want: "+a"},
		{name: "without a surge a deleted pod must end first", set: newSet(), nodes: []string{"a"}, pods: []string{"a old ready deleted"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newObserved(tt.set, "new", newNodes(tt.nodes...), newPods(tt.pods...), now)
			o.backoff = func(string) time.Duration { return tt.backoff }
			p := o.managePlan()
			if got := p.describe(); got != tt.want {
				t.Errorf("the plan is %q, want %q", got, tt.want)
			}
			var events []string
			for _, e := range p.events {
				events = append(events, e.kind+" "+e.reason)
			}
			if got := strings.Join(events, ", "); got != tt.events {
				t.Errorf("the events are %q, want %q", got, tt.events)
			}
			if p.after != tt.backoff {
				t.Errorf("the next plan is after %s, want %s", p.after, tt.backoff)
			}
		})
	}
}

func TestRolloutPlan(t *testing.T) {
	abcd := []string{"a", "b", "c", "d"}
	ready := []string{"a old ready", "b old ready", "c old ready", "d old ready"}
	for _, tt := range []struct {
		name  string
		set   *appsv1.DaemonSet
		nodes []string
		pods  []string
		want  string
		err   string
	}{
		{name: "one at a time", set: newSet(), nodes: abcd, pods: ready, want: "-a0"},
		{name: "a share, rounded up", set: newSet(unavailable("30%")), nodes: abcd, pods: ready, want: "-a0 -b1"},
		{name: "all", set: newSet(unavailable("100%")), nodes: abcd, pods: ready, want: "-a0 -b1 -c2 -d3"},
		{name: "neither surge nor unavailability is one", set: newSet(unavailable("0")), nodes: abcd, pods: ready, want: "-a0"},
		{name: "a deleted pod counts", set: newSet(), nodes: abcd, pods: slices.Concat(ready[:3], []string{"d old ready deleted"})},
		{name: "a missing pod counts", set: newSet(), nodes: abcd, pods: ready[:3]},
		{name: "a new pod counts until it is available", set: newSet(), nodes: abcd, pods: slices.Concat([]string{"a new"}, ready[1:])},
		{name: "an available new pod", set: newSet(), nodes: abcd, pods: slices.Concat([]string{"a new ready"}, ready[1:]), want: "-b1"},
		{name: "a new pod that is ready, but not for long enough", set: newSet(minReady), nodes: abcd, pods: slices.Concat([]string{"a new just-ready"}, ready[1:])},
		{name: "old pods that are not available are replaced, whatever the limit", set: newSet(), nodes: abcd,
			pods: []string{"a old", "b old", "c old ready", "d old ready"}, want: "-a0 -b1"},
		{name: "several pods on a node are managed first", set: newSet(unavailable("2")), nodes: abcd, pods: append(slices.Clone(ready), "a old"), want: "-b1"},
		{name: "all are new", set: newSet(), nodes: []string{"a"}, pods: []string{"a new ready"}},
		{name: "no number", set: newSet(unavailable("x")), nodes: abcd, pods: ready,
			err: `invalid value for MaxUnavailable: invalid value for IntOrString: invalid type: string is not a percentage`},

		{name: "surge", set: newSet(surge("1")), nodes: abcd, pods: ready, want: "+a"},
		{name: "surge by a share, rounded up", set: newSet(surge("30%")), nodes: abcd, pods: ready, want: "+a +b"},
		{name: "surge: a second pod counts until it is available", set: newSet(surge("1")), nodes: abcd, pods: append(slices.Clone(ready), "a new")},
		{name: "surge: the second pod is available", set: newSet(surge("1")), nodes: abcd, pods: append(slices.Clone(ready), "a new ready"), want: "+b -a0"},
		{name: "surge: old pods that are not available get a second one, whatever the limit", set: newSet(surge("1")), nodes: abcd,
			pods: []string{"a old", "b old", "c old ready", "d old ready"}, want: "+a +b +c"},
		{name: "surge: several old pods on a node are managed first", set: newSet(surge("1")), nodes: abcd, pods: append(slices.Clone(ready), "a old")},
		{name: "surge: an unavailable pod of a node that should have none", set: newSet(surge("1")), nodes: []string{"a:NoSchedule", "b"},
			pods: []string{"a old", "b new ready"}, want: "-a0"},
		{name: "surge: an available pod of a node that should have none stays", set: newSet(surge("1")), nodes: []string{"a:NoSchedule", "b"},
			pods: []string{"a old ready", "b new"}},
		{name: "surge: until another is available", set: newSet(surge("1")), nodes: []string{"a:NoSchedule", "b"},
			pods: []string{"a old ready", "b new ready"}, want: "-a0"},
		{name: "surge: a node is gone", set: newSet(surge("1")), nodes: []string{"b"}, pods: []string{"a old ready", "b new ready"},
			err: `couldn't get node for nodeName "a"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := newObserved(tt.set, "new", newNodes(tt.nodes...), newPods(tt.pods...), now).rolloutPlan()
			if err != nil || tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("the error is %v, want %s", err, tt.err)
				}
				return
			}
			if got := p.describe(); got != tt.want {
				t.Errorf("the plan is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	o := newObserved(newSet(minReady), "new", newNodes("a", "b", "c", "d", "e:NoSchedule"),
		newPods("a new ready", "b new just-ready", "c old", "e new ready", "c new ready"), now)
	s, after := o.status()
	want := appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 4, CurrentNumberScheduled: 3, NumberMisscheduled: 1, NumberReady: 2,
		UpdatedNumberScheduled: 2, NumberAvailable: 1, NumberUnavailable: 3}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
	if after != 40*time.Second {
		t.Errorf("the next pod is available after %s", after)
	}
}

func TestNewPod(t *testing.T) {
	own := corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists}
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1}}
	set := newSet(func(s *appsv1.DaemonSet) {
		s.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "7"}
		s.Spec.Template = corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}},
			Spec: corev1.PodSpec{HostNetwork: true,
				Tolerations: []corev1.Toleration{own, {Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64)}},
				Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred,
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: corev1.NodeSelectorOpExists}}}}}}}}}
	})
	before := set.DeepCopy()
	pod := newObserved(set, "new", nil, nil, now).newPod("a")
	if d := cmp.Diff(map[string]string{"app": "agent", hashLabel: "new", generationLabel: "7"}, pod.Labels); d != "" {
		t.Error(d)
	}
	var tolerations []string
	for _, x := range pod.Spec.Tolerations {
		tolerations = append(tolerations, strings.TrimPrefix(x.Key, "node.kubernetes.io/")+":"+string(x.Effect))
		if x.TolerationSeconds != nil {
			t.Errorf("%s is tolerated for a while", x.Key)
		}
	}
	if got := strings.Join(tolerations, " "); got != "dedicated: not-ready:NoExecute unreachable:NoExecute disk-pressure:NoSchedule memory-pressure:NoSchedule "+
		"pid-pressure:NoSchedule unschedulable:NoSchedule network-unavailable:NoSchedule" {
		t.Errorf("tolerations %s", got)
	}
	a := pod.Spec.Affinity.NodeAffinity
	terms := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 0 || nodeOf(pod) != "a" || !cmp.Equal(a.PreferredDuringSchedulingIgnoredDuringExecution, preferred) {
		t.Errorf("affinity %+v", a)
	}
	if d := cmp.Diff(before, set); d != "" {
		t.Errorf("the DaemonSet itself was changed: %s", d)
	}
}

func TestNodeOf(t *testing.T) {
	in := func(values ...string) *corev1.Affinity {
		a := newPods("a new unbound")[0].Spec.Affinity
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values = values
		return a
	}
	for _, tt := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{"bound", corev1.PodSpec{NodeName: "b", Affinity: in("a")}, "b"},
		{"required", corev1.PodSpec{Affinity: in("a")}, "a"},
		{"several", corev1.PodSpec{Affinity: in("a", "b")}, ""},
		{"no terms", corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}}, ""},
		{"none", corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}, ""},
		{"no affinity", corev1.PodSpec{}, ""},
	} {
		if got := nodeOf(&corev1.Pod{Spec: tt.spec}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
