package controllers_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// TestManyNamespaces deletes many namespaces at once; some objects in them have finalizers. Meanwhile a definition of a
// kind in them is deleted, another is created, and objects are created.
func TestManyNamespaces(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		const n = 200
		e.define("v1")
		e.waitIdle()
		name := func(i int) string { return fmt.Sprint("doomed-", i) }
		for i := range n {
			e.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(i)}})
			cm, custom := configMap("cm"), widget("w")
			cm.Namespace = name(i)
			custom.SetNamespace(name(i))
			if i%2 == 0 {
				cm.Finalizers = []string{"example.com/wait"}
			}
			if i%3 == 0 {
				custom.SetFinalizers([]string{"example.com/wait"})
			}
			e.create(cm, custom)
		}
		done := make(chan struct{})
		go func() { // creations that may still be admitted
			defer close(done)
			for i := range n {
				for j := range 3 {
					cm := configMap(fmt.Sprint("late", j))
					cm.Namespace = name(i)
					cm.Finalizers = []string{"example.com/wait"}
					_ = e.Create(e.Context(), cm)
				}
			}
		}()
		for i := range n {
			e.must(e.Delete(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}))
			if i == n/2 {
				e.must(e.Delete(e.Context(), definition()))
			}
		}
		<-done
		e.waitIdle()
		none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		cms := &corev1.ConfigMapList{}
		e.must(e.List(e.Context(), cms))
		for i := range cms.Items {
			if len(cms.Items[i].Finalizers) > 0 {
				e.must(client.IgnoreNotFound(e.Patch(e.Context(), &cms.Items[i], none)))
			}
		}
		for i := 0; i < n; i += 3 {
			custom := widget("w")
			custom.SetNamespace(name(i))
			e.must(client.IgnoreNotFound(e.Patch(e.Context(), custom, none)))
		}
		time.Sleep(time.Minute) // virtual; until retries of what failed meanwhile
		e.waitIdle()
		list := &corev1.NamespaceList{}
		e.must(e.List(e.Context(), list))
		for _, ns := range list.Items {
			if ns.DeletionTimestamp != nil {
				t.Errorf("%s still exists: %v", ns.Name, ns.Status.Conditions)
				break
			}
		}
		e.must(e.List(e.Context(), cms))
		for _, cm := range cms.Items {
			if cm.Namespace != "default" && cm.Namespace != "kube-system" {
				t.Errorf("%s/%s still exists", cm.Namespace, cm.Name)
			}
		}
	})
}
