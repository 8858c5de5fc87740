package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	flagsv1 "flyball.dev/examples/hybrid/api/v1"
	"flyball.dev/examples/hybrid/internal/controller"
	"flyball.dev/examples/hybrid/internal/flagservice"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while flags are copied, and what when the flag service fails.
func TestLab(t *testing.T) {
	var service *flagservice.Server
	flags := &flagsv1.FeatureFlags{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
		Spec:       flagsv1.FeatureFlagsSpec{Project: "shop", Interval: metav1.Duration{Duration: time.Minute}},
	}
	begin := func() {
		service = flagservice.New()
		service.Set("shop", map[string]string{"dark-mode": "off"})
		service.Set("store", map[string]string{"dark-mode": "on"})
	}
	begin()
	exampletest.Lab(t, newExample(service, nil, ""), lab.Scenario{Begin: begin, Steps: []lab.Step{
		lab.Create(flags),
		lab.Update(flags, func(f *flagsv1.FeatureFlags) { f.Spec.Project = "store" }),
		lab.Remove(flags),
		lab.Create(flags),
	}}, setUpWith(&service))
}

// setUpWith returns a function that adds the controllers, with a flag service without a network.
func setUpWith(service **flagservice.Server) func(*rest.Config, ctrl.Manager) error {
	return func(cfg *rest.Config, mgr ctrl.Manager) error {
		return (&controller.FeatureFlagsReconciler{
			Client:   mgr.GetClient(),
			Scheme:   mgr.GetScheme(),
			Recorder: mgr.GetEventRecorder("hybrid"),
			Service:  flagservice.NewClient("http://flags", exampletest.External(cfg, "flags", *service)),
		}).SetupWithManager(mgr)
	}
}
