package webhook_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/admission"
)

// owners labels ConfigMaps with their owner, and refuses ConfigMaps of nobody.
type owners struct{}

func (owners) Default(ctx context.Context, cm *corev1.ConfigMap) error {
	req, err := admission.RequestFromContext(ctx)
	if err == nil && cm.Labels["owner"] == "" {
		cm.Labels = map[string]string{"owner": req.UserInfo.Username}
	}
	return err
}

func (owners) ValidateCreate(_ context.Context, cm *corev1.ConfigMap) (admission.Warnings, error) {
	if cm.Labels["owner"] == "nobody" {
		return nil, fmt.Errorf("somebody must own ConfigMap %s", cm.Name)
	}
	return nil, nil
}

func (o owners) ValidateUpdate(ctx context.Context, _, cm *corev1.ConfigMap) (admission.Warnings, error) {
	return o.ValidateCreate(ctx, cm)
}

func (owners) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

// The webhooks of an operator in development: the certificate is made in memory, and the API server
// is configured to call them.
func ExampleInstall() {
	ctx := ctrl.SetupSignalHandler()
	plane, err := controlplane.Start(ctx, controlplane.Options{WithoutControllers: true})
	if err != nil {
		panic(err)
	}
	defer plane.Stop()

	mgr, err := ctrl.NewManager(plane.Config(), ctrl.Options{
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Install: &webhook.Install{}}),
	})
	if err != nil {
		panic(err)
	}
	err = ctrl.NewWebhookManagedBy(mgr, &corev1.ConfigMap{}).
		WithDefaulter(owners{}).
		WithValidator(owners{}).
		Complete()
	if err != nil {
		panic(err)
	}
	if err := mgr.Start(ctx); err != nil {
		panic(err)
	}
}
