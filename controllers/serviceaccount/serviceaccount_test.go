package serviceaccount_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestNamespacesHaveAServiceAccount(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "team", Name: "default"}, &corev1.ServiceAccount{}))
	})
}
