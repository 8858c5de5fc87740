package rootca_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestRootCA(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.WaitIdle()
		e.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		e.WaitIdle()
		published := func(namespace string) *corev1.ConfigMap {
			t.Helper()
			m := &corev1.ConfigMap{}
			e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: namespace, Name: "kube-root-ca.crt"}, m))
			return m
		}
		want := published("default").Data["ca.crt"]
		if !strings.HasPrefix(want, "-----BEGIN CERTIFICATE-----") {
			t.Errorf("published is %q", want)
		}
		check := func(namespace string) {
			t.Helper()
			if got := published(namespace).Data; len(got) != 1 || got["ca.crt"] != want {
				t.Errorf("%s has %q", namespace, got)
			}
		}
		check("kube-system")
		check("team")

		m := published("team")
		m.Data = map[string]string{"ca.crt": "mine", "other": "too"}
		e.Must(e.Update(e.Context(), m))
		e.WaitIdle()
		check("team")
		e.Must(e.Delete(e.Context(), published("team")))
		e.WaitIdle()
		check("team")

		e.Must(e.Delete(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKey{Name: "team"}, &corev1.Namespace{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the namespace still exists: %v", err)
		}
	})
}
