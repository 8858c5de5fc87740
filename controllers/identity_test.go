package controllers_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	deploymentcontroller "flyball.dev/controllers/deployment"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
)

// TestDeploymentOfTheSameName replaces a Deployment by another of the same name just before the
// controller writes the revision of the old one, which must not reach the new one.
func TestDeploymentOfTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		c, err := client.NewWithWatch(plane.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := world{t, c}
		var answers []error
		stop := runController(w, plane.Config(), deploymentcontroller.AddToManager, interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				if _, ok := obj.(*appsv1.Deployment); ok && answers == nil {
					w.must(w.Delete(ctx, deployment(3, "a"), client.PropagationPolicy(background)))
					w.create(deployment(3, "b"))
				}
				err := c.SubResource(name).Update(ctx, obj, opts...)
				answers = append(answers, err)
				return err
			},
		})
		defer stop()
		w.create(deployment(3, "a"))
		w.waitIdle()
		if len(answers) < 2 || !apierrors.IsConflict(answers[0]) || answers[len(answers)-1] != nil {
			t.Errorf("the responses were %v", answers)
		}
		w.wantSets("1 a 3", "1 b 3")
	})
}

// runController runs one controller, with an intercepted client, until stop is called.
func runController(w world, cfg *rest.Config, add func(manager.Manager) error, funcs interceptor.Funcs) (stop func()) {
	w.Helper()
	skipNames := true
	mgr, err := manager.New(cfg, manager.Options{
		Logger:     logr.New(log.NullLogSink{}),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skipNames},
		NewClient: func(cfg *rest.Config, o client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(cfg, o)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(c, funcs), nil
		},
	})
	w.must(err)
	w.must(add(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		cancel()
		w.must(<-done)
	}
}
