package tour

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
)

// The namespace of the scenario and the name of its AppService.
const (
	namespace = example.Namespace
	name      = "web"
)

var key = client.ObjectKey{Namespace: namespace, Name: name}

// world is the state that the steps share.
type world struct {
	*example.World
	c        client.WithWatch
	operator *example.Operator
	second   *example.Operator
}

// withLeaderElection makes an operator compete for the Lease.
func withLeaderElection(o *ctrl.Options) { o.LeaderElection = true }

// read reads the AppService from the API server.
func (w *world) read(ctx context.Context) (*appv1.AppService, error) {
	app := &appv1.AppService{}
	return app, w.c.Get(ctx, key, app)
}

// change patches the spec of the AppService.
func (w *world) change(ctx context.Context, change func(*appv1.AppServiceSpec)) error {
	app, err := w.read(ctx)
	if err != nil {
		return err
	}
	before := client.MergeFrom(app.DeepCopy())
	change(&app.Spec)
	return w.c.Patch(ctx, app, before)
}

// converged waits until the Deployment, the pods and the status are as the spec of the AppService.
func (w *world) converged(ctx context.Context) error {
	app, err := w.read(ctx)
	if err != nil {
		return err
	}
	if err := w.deployment(ctx, func(d *appsv1.Deployment) string {
		switch {
		case *d.Spec.Replicas != app.Spec.Replicas:
			return fmt.Sprintf("the Deployment has %d replicas, want %d", *d.Spec.Replicas, app.Spec.Replicas)
		case image(&d.Spec.Template.Spec) != app.Spec.Image:
			return fmt.Sprintf("the Deployment has the image %s, want %s", image(&d.Spec.Template.Spec), app.Spec.Image)
		}
		return ""
	}); err != nil {
		return err
	}
	if err := w.pods(ctx, app, int(app.Spec.Replicas)); err != nil {
		return err
	}
	return w.ready(ctx, app.Generation)
}

// deployment waits until a condition of the AppService's Deployment is true; see await.Until.
func (w *world) deployment(ctx context.Context, condition func(*appsv1.Deployment) string) error {
	return await.Until(ctx, w.c, &appsv1.DeploymentList{}, func(all []*appsv1.Deployment) string {
		for _, d := range all {
			if d.Name == name && d.DeletionTimestamp == nil {
				return condition(d)
			}
		}
		return "there is no Deployment"
	}, client.InNamespace(namespace))
}

// pods waits until there are exactly n pods of the AppService, all ready and with its image.
func (w *world) pods(ctx context.Context, app *appv1.AppService, n int) error {
	return await.Until(ctx, w.c, &corev1.PodList{}, func(all []*corev1.Pod) string {
		matching := 0
		for _, p := range all {
			ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			if ready && p.DeletionTimestamp == nil && image(&p.Spec) == app.Spec.Image {
				matching++
			}
		}
		if matching != n || len(all) != n {
			return fmt.Sprintf("%d Pods, of which %d are ready with the right image, want %d", len(all), matching, n)
		}
		return ""
	}, ofApp(app.Name)...)
}

// ready waits until the AppService is ready in this generation.
func (w *world) ready(ctx context.Context, generation int64) error {
	return await.Until(ctx, w.c, &appv1.AppServiceList{}, func(all []*appv1.AppService) string {
		for _, app := range all {
			isReady := slices.ContainsFunc(app.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == appv1.ConditionReady && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= generation
			})
			if app.Name == name && isReady && app.Status.ObservedGeneration >= generation &&
				app.Status.ReadyReplicas == app.Spec.Replicas {
				return ""
			}
		}
		return "the AppService is not ready"
	}, client.InNamespace(namespace))
}

// none waits until the AppService of that name has no objects of the list's kind.
func none[T client.Object](ctx context.Context, w *world, list client.ObjectList, app string) error {
	return await.Until(ctx, w.c, list, func(all []T) string {
		if len(all) > 0 {
			return fmt.Sprintf("%d %T are left", len(all), all[0])
		}
		return ""
	}, ofApp(app)...)
}

// collected waits until all dependents of an AppService are deleted.
func (w *world) collected(ctx context.Context, app string) error {
	if err := none[*appsv1.Deployment](ctx, w, &appsv1.DeploymentList{}, app); err != nil {
		return err
	}
	if err := none[*appsv1.ReplicaSet](ctx, w, &appsv1.ReplicaSetList{}, app); err != nil {
		return err
	}
	if err := none[*corev1.Pod](ctx, w, &corev1.PodList{}, app); err != nil {
		return err
	}
	return none[*corev1.Service](ctx, w, &corev1.ServiceList{}, app)
}

// ofApp selects the dependents of an AppService.
func ofApp(app string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/instance": app}}
}

func image(spec *corev1.PodSpec) string { return spec.Containers[0].Image }
