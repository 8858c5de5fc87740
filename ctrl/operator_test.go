package ctrl_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/testserver"
	metricsserver "flyball.dev/ctrl/metrics/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// labeler is the operator of the package comment.
type labeler struct {
	client.Client
	labeled chan string
}

func (l labeler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cm corev1.ConfigMap
	if err := l.Get(ctx, req.NamespacedName, &cm); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cm.Labels["seen"] == "true" {
		return ctrl.Result{}, nil
	}
	before := client.MergeFrom(cm.DeepCopy())
	metav1.SetMetaDataLabel(&cm.ObjectMeta, "seen", "true")
	if err := l.Patch(ctx, &cm, before); err != nil {
		return ctrl.Result{}, err
	}
	l.labeled <- cm.Name
	return ctrl.Result{}, nil
}

func TestOperator(t *testing.T) {
	mgr, err := ctrl.NewManager(testserver.Start(t), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := labeler{mgr.GetClient(), make(chan string)}
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(l); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	<-mgr.Elected()
	for _, name := range []string{"first", "second"} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if err := mgr.GetClient().Create(ctx, cm); err != nil {
			t.Fatal(err)
		}
		if got := <-l.labeled; got != name {
			t.Errorf("%s was labeled, want %s", got, name)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
