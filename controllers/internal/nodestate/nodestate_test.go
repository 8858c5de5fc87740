package nodestate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestTaints(t *testing.T) {
	no := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule} }
	own := corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoExecute}
	with := func(conditions ...corev1.NodeCondition) corev1.NodeStatus {
		return corev1.NodeStatus{Conditions: conditions}
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	for _, tt := range []struct {
		name string
		node corev1.Node
		want []corev1.Taint
	}{
		{"ready", corev1.Node{Status: with(ready)}, nil},
		{"without conditions", corev1.Node{}, nil},
		{"without conditions, with the taint of a new node", corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{no(corev1.TaintNodeNotReady)}}}, nil},
		{"not ready", corev1.Node{Status: with(corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse})},
			[]corev1.Taint{no(corev1.TaintNodeNotReady)}},
		{"unreachable", corev1.Node{Status: with(corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown})},
			[]corev1.Taint{no(corev1.TaintNodeUnreachable)}},
		{"cordoned, with a taint of its own", corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{own}}, Status: with(ready)},
			[]corev1.Taint{own, no(corev1.TaintNodeUnschedulable)}},
		{"uncordoned", corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{no(corev1.TaintNodeUnschedulable), own}}, Status: with(ready)},
			[]corev1.Taint{own}},
		{"cordoned, with the taint", corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{no(corev1.TaintNodeUnschedulable)}}, Status: with(ready)},
			[]corev1.Taint{no(corev1.TaintNodeUnschedulable)}},
		{"memory pressure", corev1.Node{Status: with(ready, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})},
			[]corev1.Taint{no(corev1.TaintNodeMemoryPressure)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.node.DeepCopy()
			got := Taints(&tt.node)
			if len(got) == 0 {
				got = nil
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(before, &tt.node); d != "" {
				t.Errorf("the node itself was changed: %s", d)
			}
		})
	}
}
