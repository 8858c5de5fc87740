package daemonset_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/testlevel"
)

// rollout rolls out a second template over nodes while writes fail, and returns whether one has failed.
func rollout(t *testing.T, nodes int, strategy func(*appsv1.DaemonSet), f *controllerstest.Faults) (failed bool) {
	t.Helper()
	o := controllers.Options{Without: []string{"daemonset-controller"}, Pods: pods.Options{Nodes: pods.Nodes(nodes)}}
	controllerstest.WithControlPlane(t, controlplane.Options{Controllers: o, Logger: controllerstest.Quiet(t)}, func(e controllerstest.Env) {
		none := controllerstest.FailWrites(func(int) bool { return false }, false)
		e.CreateAll(daemonSet("a", strategy))
		e.RunController("daemonset-controller", none, 5*time.Second)
		set := get(e)
		before := client.MergeFrom(set.DeepCopy())
		image("b")(set)
		e.Must(e.Patch(e.Context(), set, before))
		e.RunController("daemonset-controller", f, 30*time.Second)

		var all []string
		for _, node := range pods.Nodes(nodes) {
			all = append(all, node.Name+" b Running")
		}
		slices.Sort(all)
		want(e, all...)
		n := int32(nodes)
		wantStatus(e, n, n, n, n, n, 0)
		revisions := &appsv1.ControllerRevisionList{}
		if e.Must(e.List(e.Context(), revisions)); len(revisions.Items) != 2 {
			t.Errorf("there are %d revisions", len(revisions.Items))
		}
		if failed = f.Failed() > 0; e.Failed() {
			t.Fatalf("%d writes of %d have failed", f.Failed(), f.Writes())
		}
	})
	return failed
}

// TestRolloutWithFaults rolls out over 50 nodes while every third write fails, and over 3 nodes while each write fails in turn. The
// end is always the same.
func TestRolloutWithFaults(t *testing.T) {
	for name, strategy := range map[string]func(*appsv1.DaemonSet){"unavailable": rolling("20%", "0"), "surge": rolling("0", "20%")} {
		for _, executed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " executed ", executed), func(t *testing.T) {
				if executed != (name == "surge") {
					testlevel.NeedsFull(t, "the others roll out over 50 nodes too")
				}
				if !rollout(t, 50, strategy, controllerstest.FailWrites(func(n int) bool { return n%3 == 0 }, executed)) {
					t.Error("no write has failed")
				}
				if !testlevel.Full() {
					return
				}
				n := 0
				for rollout(t, 3, strategy, controllerstest.FailWrites(func(i int) bool { return i == n }, executed)) {
					n++
				}
				if n < 8 {
					t.Errorf("there are only %d writes", n)
				}
			})
		}
	}
}
