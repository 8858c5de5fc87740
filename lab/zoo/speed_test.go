package zoo

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/manager"
	"flyball.dev/lab"
)

// fleet returns an operator with three controllers, which make seven ConfigMaps, six Secrets and six service accounts for
// a Widget.
func fleet() lab.Operator {
	kinds := []struct {
		name  string
		parts int
		empty func() client.Object
	}{
		{"configmaps", 7, func() client.Object { return &corev1.ConfigMap{} }},
		{"secrets", 6, func() client.Object { return &corev1.Secret{} }},
		{"accounts", 6, func() client.Object { return &corev1.ServiceAccount{} }},
	}
	return lab.Operator{
		CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}, Scheme: scheme,
		Start: func(cfg *rest.Config) (manager.Manager, error) {
			mgr, err := newManager(cfg, false, false)
			if err != nil {
				return nil, err
			}
			c := mgr.GetClient()
			for _, kind := range kinds {
				err := ctrl.NewControllerManagedBy(mgr).Named(kind.name).For(&Widget{}).Owns(kind.empty()).
					Complete(reconcilerFunc(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
						w := &Widget{}
						if err := c.Get(ctx, req.NamespacedName, w); err != nil || w.DeletionTimestamp != nil {
							return ctrl.Result{}, client.IgnoreNotFound(err)
						}
						for i := range kind.parts {
							if err := makePart(ctx, c, w, kind.empty(), fmt.Sprintf("%s-%s-%d", w.Name, kind.name, i)); err != nil {
								return ctrl.Result{}, err
							}
						}
						return ctrl.Result{}, nil
					}))
				if err != nil {
					return nil, err
				}
			}
			return mgr, nil
		},
	}
}

// makePart creates a part of a Widget unless it exists, and labels it with the size of the Widget.
func makePart(ctx context.Context, c client.Client, w *Widget, part client.Object, name string) error {
	err := c.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, part)
	labels := map[string]string{"size": fmt.Sprint(w.Spec.Size)}
	switch {
	case apierrors.IsNotFound(err):
		part.SetNamespace(w.Namespace)
		part.SetName(name)
		part.SetLabels(labels)
		if err := controllerutil.SetControllerReference(w, part, scheme); err != nil {
			return err
		}
		return c.Create(ctx, part)
	case err != nil:
		return err
	case !metav1.IsControlledBy(part, w):
		return fmt.Errorf("%s belongs to somebody else", name)
	case part.GetLabels()["size"] == labels["size"]:
		return nil
	}
	part.SetLabels(labels)
	return c.Update(ctx, part)
}

// BenchmarkSchedule measures the time of a core for a schedule, with all goroutines of its world, for an operator with three controllers
// and twenty objects. The preparation and the clean runs of the exploration do not count.
func BenchmarkSchedule(b *testing.B) {
	w := newWidget("web", WidgetSpec{Size: 1})
	scenario := lab.Scenario{Steps: []lab.Step{lab.Create(w), lab.Remove(w)}}
	const clean = 4
	var began time.Duration
	runs := 0
	scenario.Begin = func() {
		if runs++; runs == clean+1 {
			b.ResetTimer()
			began = used(b)
		}
	}
	scenario.Schedules = b.N
	testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: b.Name(), F: func(t *testing.T) {
		report, err := lab.Find(t, fleet(), scenario)
		if err != nil {
			t.Fatal(err)
		}
		b.ReportMetric(float64(used(b)-began)/1e6/float64(report.Schedules), "cpu-ms/schedule")
		b.ReportMetric(float64(report.Unreached)/float64(report.Schedules), "unreached/schedule")
		for _, f := range report.Findings {
			t.Errorf("%s: %s\n%s", f.Check, f.Message, f.Story)
		}
	}}})
}
