package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/appservice/config"
	"flyball.dev/examples/appservice/internal/await"
	"flyball.dev/examples/appservice/internal/operator"
	"flyball.dev/examples/appservice/internal/tour"
	"flyball.dev/internal/kubeconfig"
)

// runLocally runs the operator with a control plane of its own until ctx ends. The control plane
// does not end with ctx but after the manager, which needs it to finish its reconciles and to
// release its lease.
func runLocally(ctx context.Context, o operator.Options, out io.Writer) (err error) {
	start := time.Now()
	plane, err := controlplane.Start(context.WithoutCancel(ctx), controlplane.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	fmt.Fprintf(out, "A Kubernetes control plane runs in this process, at %s (%d ms).\n", plane.URL(),
		time.Since(start).Milliseconds())
	ctx, cancel := untilEnd(ctx, plane)
	defer cancel()
	if err := kubeconfig.Write(kubeconfig.DefaultPath, plane.Kubeconfig()); err != nil {
		return err
	}
	if err := install(ctx, plane.Config()); err != nil {
		return err
	}
	fmt.Fprintln(out, "The kind AppService is installed.")

	o.Change = func(options *ctrl.Options) { options.LeaderElectionNamespace = metav1.NamespaceDefault }
	mgr, err := operator.New(plane.Config(), o)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- operator.Run(ctx, mgr) }()
	fmt.Fprintln(out, "The operator is running. It creates a Deployment and a Service for each AppService.")
	if err := createSample(ctx, plane.Config(), out); err != nil {
		cancel()
		return errors.Join(err, <-done)
	}
	fmt.Fprintf(out, invitation, kubeconfig.DefaultPath)
	if err := <-done; err != nil {
		return err
	}
	fmt.Fprintln(out, "Stopped.")
	return nil
}

// untilEnd returns a context that ends with ctx, and when the control plane ends by itself.
func untilEnd(ctx context.Context, plane *controlplane.ControlPlane) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-plane.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// invitation is printed when the sample is created. Its argument is the path of the kubeconfig.
const invitation = `
Try this in another terminal, and see here what the operator does:

  export KUBECONFIG=%s
  kubectl get appservices,deployments,pods
  kubectl patch appservice hello --type merge -p '{"spec":{"replicas":4}}'
  kubectl set image deployment/hello app=intruder:1
  kubectl delete deployment hello
  kubectl delete appservice hello

Ctrl-C stops everything.

`

// install creates the CustomResourceDefinition and waits until it is established.
func install(ctx context.Context, cfg *rest.Config) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	c, err := create(ctx, cfg, config.CRD, crd)
	if err != nil {
		return err
	}
	return await.Until(ctx, c, &apiextensionsv1.CustomResourceDefinitionList{},
		func(all []*apiextensionsv1.CustomResourceDefinition) string {
			for _, d := range all {
				for _, condition := range d.Status.Conditions {
					if d.Name == crd.Name && condition.Type == apiextensionsv1.Established &&
						condition.Status == apiextensionsv1.ConditionTrue {
						return ""
					}
				}
			}
			return "the definition is not established"
		})
}

// createSample creates the sample AppService.
func createSample(ctx context.Context, cfg *rest.Config, out io.Writer) error {
	app := &appv1.AppService{}
	if _, err := create(ctx, cfg, config.Sample, app); err != nil {
		return err
	}
	fmt.Fprintf(out, "AppService %s/%s is created: %d replicas of %s.\n", app.Namespace, app.Name,
		app.Spec.Replicas, app.Spec.Image)
	return nil
}

// create creates the object of a manifest, and returns the client that it has used.
func create(ctx context.Context, cfg *rest.Config, manifest []byte, obj client.Object) (client.WithWatch, error) {
	scheme, err := operator.NewScheme()
	if err == nil {
		err = apiextensionsv1.AddToScheme(scheme)
	}
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(manifest, obj); err != nil {
		return nil, err
	}
	return c, c.Create(ctx, obj)
}

// runTour runs the tour on a control plane of its own, without a socket.
func runTour(ctx context.Context, out io.Writer) (err error) {
	plane, err := controlplane.Start(context.WithoutCancel(ctx), controlplane.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if err := install(ctx, plane.Config()); err != nil {
		return err
	}
	return tour.Run(ctx, plane.Config(), out)
}
