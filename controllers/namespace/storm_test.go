package namespace_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestManyNamespaces deletes many namespaces at once; some objects in them have finalizers. Meanwhile a definition of a
// kind in them is deleted, another is created, and objects are created.
func TestManyNamespaces(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		const n = 200
		e.DefineWidgets("v1")
		e.WaitIdle()
		name := func(i int) string { return fmt.Sprint("doomed-", i) }
		for i := range n {
			e.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(i)}})
			cm, custom := controllerstest.ConfigMap("cm"), controllerstest.Widget("w")
			cm.Namespace = name(i)
			custom.SetNamespace(name(i))
			if i%2 == 0 {
				cm.Finalizers = []string{"example.com/wait"}
			}
			if i%3 == 0 {
				custom.SetFinalizers([]string{"example.com/wait"})
			}
			e.CreateAll(cm, custom)
		}
		done := make(chan struct{})
		go func() { // creations that may still be admitted
			defer close(done)
			for i := range n {
				for j := range 3 {
					cm := controllerstest.ConfigMap(fmt.Sprint("late", j))
					cm.Namespace = name(i)
					cm.Finalizers = []string{"example.com/wait"}
					_ = e.Create(e.Context(), cm)
				}
			}
		}()
		for i := range n {
			e.Must(e.Delete(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}))
			if i == n/2 {
				e.Must(e.Delete(e.Context(), controllerstest.WidgetDefinition()))
			}
		}
		<-done
		e.WaitIdle()
		none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		cms := &corev1.ConfigMapList{}
		e.Must(e.List(e.Context(), cms))
		for i := range cms.Items {
			if len(cms.Items[i].Finalizers) > 0 {
				e.Must(client.IgnoreNotFound(e.Patch(e.Context(), &cms.Items[i], none)))
			}
		}
		for i := 0; i < n; i += 3 {
			custom := controllerstest.Widget("w")
			custom.SetNamespace(name(i))
			e.Must(client.IgnoreNotFound(e.Patch(e.Context(), custom, none)))
		}
		time.Sleep(time.Minute) // virtual; until retries of what failed meanwhile
		e.WaitIdle()
		list := &corev1.NamespaceList{}
		e.Must(e.List(e.Context(), list))
		for _, ns := range list.Items {
			if ns.DeletionTimestamp != nil {
				t.Errorf("%s still exists: %v", ns.Name, ns.Status.Conditions)
				break
			}
		}
		e.Must(e.List(e.Context(), cms))
		for _, cm := range cms.Items {
			if cm.Namespace != "default" && cm.Namespace != "kube-system" {
				t.Errorf("%s/%s still exists", cm.Namespace, cm.Name)
			}
		}
	})
}
