package ttl_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestMain(m *testing.M) { controllerstest.Main(m) }

// TestAnnotation: the time grows with the cluster, for all its nodes, and shrinks ten nodes later.
func TestAnnotation(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		node := func(i int) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		}
		want := func(value string) {
			e.Helper()
			e.WaitIdle()
			nodes := &corev1.NodeList{}
			e.Must(e.List(e.Context(), nodes))
			for _, n := range nodes.Items {
				if got := n.Annotations[corev1.ObjectTTLAnnotationKey]; got != value {
					t.Fatalf("of %d nodes, %s has %q, want %q", len(nodes.Items), n.Name, got, value)
				}
			}
		}
		for i := range 99 { // and there is the node flyball
			e.CreateAll(node(i))
		}
		want("0")
		e.CreateAll(node(99))
		want("15")
		for _, value := range []string{`"soon"`, `"7"`, `null`} {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, corev1.ObjectTTLAnnotationKey, value)
			e.Must(e.Patch(e.Context(), node(1), client.RawPatch(types.MergePatchType, []byte(patch))))
			want("15")
		}
		for i := range 11 {
			e.Must(e.Delete(e.Context(), node(i)))
		}
		want("15")
		e.Must(e.Delete(e.Context(), node(11)))
		want("0")
	})
}

// TestFaults adds and deletes nodes while writes of the controller fail and it restarts.
func TestFaults(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		step := 0
		e.RunWithFaults("ttl-controller", 1, func() {
			if step++; step <= 120 {
				e.CreateAll(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", step)}})
			}
		}, func() bool { return step > 150 })
		nodes := &corev1.NodeList{}
		e.Must(e.List(e.Context(), nodes))
		for _, n := range nodes.Items {
			if got := n.Annotations[corev1.ObjectTTLAnnotationKey]; got != "15" {
				t.Errorf("%s has %q", n.Name, got)
			}
		}
	})
}
