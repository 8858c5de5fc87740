package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	upstream "k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestTaintEviction compares which pods are deleted, when, and with which events.
func TestTaintEviction(t *testing.T) {
	comparison{
		name:      "taint-eviction-controller",
		scenarios: 100,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			err := f.Core().V1().Pods().Informer().AddIndexers(cache.Indexers{"spec.nodeName": func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Spec.NodeName}, nil }})
			if err != nil {
				return nil, err
			}
			k, err := upstream.New(ctx, c, f.Core().V1().Pods(), f.Core().V1().Nodes(), "taint-eviction-controller")
			if err != nil {
				return nil, err
			}
			return k.Run, nil
		},
		kinds:    []client.ObjectList{&corev1.PodList{}, &corev1.NodeList{}},
		generate: generateTaints,
		require: []string{"Event *TaintManagerEviction Marking for deletion", "Event *TaintManagerEviction Cancelling deletion",
			"Pod *.status.conditions*deleting due to NoExecute taint", "Pod *.metadata.deletionGracePeriodSeconds 30"},
	}.compare(t)
}

func generateTaints(s *random.Source) []step {
	taints := func() []corev1.Taint {
		var list []corev1.Taint
		for _, key := range random.Some(s, 3, "x", "y", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable) {
			t := corev1.Taint{Key: key, Value: random.Pick(s, "", "v"), Effect: random.Pick(s, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule)}
			if !has(list, t) {
				list = append(list, t)
			}
		}
		return list
	}
	nodes := []*corev1.Node{newNode("a", true, taints()...), newNode("b", true, taints()...)}
	steps := []step{create(nodes[0]), create(nodes[1])}
	var pods []*corev1.Pod
	for i := range 1 + s.IntN(4) {
		p := newPod(s, fmt.Sprint("p", i), random.Pick(s, "a", "a", "b", "none", ""))
		for range s.IntN(4) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, newToleration(s))
		}
		// If the deletion removes the pod at once, Kubernetes sometimes cancels it at the same time.
		p.Status.Phase = random.Pick(s, corev1.PodRunning, corev1.PodPending)
		p.Spec.TerminationGracePeriodSeconds = ptr.To(random.Pick[int64](s, 5, 30))
		pods = append(pods, p)
		steps = append(steps, create(p))
	}
	if s.Chance(30) {
		steps = shuffled(s, steps)
	}
	for range s.IntN(10) {
		p, n := random.Pick(s, pods...), random.Pick(s, nodes...)
		set, t := taints(), newToleration(s)
		steps = append(steps, random.Pick(s,
			change(fmt.Sprint("taints ", jsonOf(set)), n, func(n *corev1.Node) { n.Spec.Taints = set }),
			change(fmt.Sprint("taints ", jsonOf(set)), n, func(n *corev1.Node) { n.Spec.Taints = set }),
			change("no taints", n, func(n *corev1.Node) { n.Spec.Taints = nil }),
			change(fmt.Sprint("tolerates ", jsonOf(t)), p, func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }),
			change("labels", p, func(p *corev1.Pod) { p.Labels = map[string]string{"x": "y"} }),
			create(n), create(p), remove(n), remove(p), kill(p),
			step{text: fmt.Sprint("bind ", p.Name), do: func(ctx context.Context, c client.Client) error {
				return c.SubResource("binding").Create(ctx, p.DeepCopy(), &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: n.Name}})
			}},
		))
	}
	if s.Chance(20) {
		steps = append(steps, changedWithoutNode(s)...)
	}
	for i := range steps { // no toleration ends at the time of a step
		if steps[i].wait > 0 {
			continue
		}
		steps[i].wait = random.Pick(s, 100*time.Millisecond, 100*time.Millisecond, 1100*time.Millisecond, 5200*time.Millisecond, 31*time.Second, 400*time.Second)
	}
	return steps
}

// changedWithoutNode returns steps in which a pod gets another toleration when its eviction is scheduled and its node is gone.
func changedWithoutNode(s *random.Source) []step {
	const soon = 100 * time.Millisecond
	node := newNode("c", true, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute})
	p := newPod(s, "late", node.Name)
	p.Spec.Tolerations = []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](10), Effect: corev1.TaintEffectNoExecute}}
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	return []step{after(create(node), soon), after(create(p), soon), after(remove(node), soon),
		after(change("tolerates y", p, func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "y", Operator: corev1.TolerationOpExists})
		}), soon),
		change("labels", p, func(p *corev1.Pod) { p.Labels = map[string]string{"x": "y"} })}
}

// has reports whether a list has a taint with the key and the effect.
func has(list []corev1.Taint, t corev1.Taint) bool {
	for _, o := range list {
		if o.MatchTaint(&t) {
			return true
		}
	}
	return false
}

func newToleration(s *random.Source) corev1.Toleration {
	t := corev1.Toleration{Key: random.Pick(s, "x", "x", "y", "", corev1.TaintNodeNotReady), Operator: random.Pick(s, corev1.TolerationOpExists, corev1.TolerationOpEqual, ""),
		Value: random.Pick(s, "", "v"), Effect: random.Pick(s, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, "", corev1.TaintEffectNoSchedule)}
	if t.Key == "" || t.Operator == corev1.TolerationOpExists {
		t.Operator, t.Value = corev1.TolerationOpExists, ""
	}
	if t.Effect == corev1.TaintEffectNoExecute && s.Chance(70) {
		t.TolerationSeconds = ptr.To(random.Pick[int64](s, 0, -1, 1, 2, 5, 10, 30, 60))
	}
	return t
}
