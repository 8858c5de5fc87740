package zoo

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/lab"
)

// The steps of a user who creates a ConfigMap with the label app, changes it and removes it.
var (
	createApp = lab.Create(webApp)
	changeApp = lab.Update(webApp, func(m *corev1.ConfigMap) { m.Data = map[string]string{"size": "2"} })
	removeApp = lab.Remove(webApp)

	webApp = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}}}
)

// An idiom reconciles a ConfigMap with the label app.
type idiom func(ctx context.Context, c client.Client, app *corev1.ConfigMap) (ctrl.Result, error)

// exploreIdiom explores an operator that makes something of each ConfigMap with the label app. The ConfigMap owns the part, unless the
// part is nil.
func exploreIdiom(t *testing.T, part client.Object, do idiom, steps ...lab.Step) *lab.Report {
	t.Helper()
	report, err := lab.Find(t, lab.Operator{Start: func(cfg *rest.Config) (manager.Manager, error) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}})
		if err != nil {
			return nil, err
		}
		c := mgr.GetClient()
		b := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{})
		if part != nil {
			b = b.Owns(part)
		}
		return mgr, b.Complete(reconcile.AsReconciler(c,
			reconcile.ObjectReconciler[*corev1.ConfigMap](reconcile.TypedFunc[*corev1.ConfigMap](func(ctx context.Context, app *corev1.ConfigMap) (ctrl.Result, error) {
				if app.Labels["app"] == "" {
					return ctrl.Result{}, nil
				}
				return do(ctx, c, app)
			}))))
	}}, lab.Scenario{Steps: steps, Schedules: 60})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestIdioms: what most operators do is no mistake.
func TestIdioms(t *testing.T) {
	for name, tc := range map[string]struct {
		part client.Object
		do   idiom
	}{
		"create or update": {&corev1.Secret{}, func(ctx context.Context, c client.Client, app *corev1.ConfigMap) (ctrl.Result, error) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
			_, err := controllerutil.CreateOrUpdate(ctx, c, secret, func() error {
				secret.Data = map[string][]byte{"size": []byte(app.Data["size"])}
				return controllerutil.SetControllerReference(app, secret, c.Scheme())
			})
			return ctrl.Result{}, err
		}},
		"server-side apply": {&corev1.Secret{}, func(ctx context.Context, c client.Client, app *corev1.ConfigMap) (ctrl.Result, error) {
			owner := metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName(app.Name).WithUID(app.UID).WithController(true)
			return ctrl.Result{}, c.Apply(ctx, corev1ac.Secret(app.Name, app.Namespace).WithOwnerReferences(owner).
				WithStringData(map[string]string{"size": app.Data["size"]}), client.FieldOwner("web"), client.ForceOwnership)
		}},
		"a Job that runs once": {&batchv1.Job{}, runOnce},
		"finalizer":            {nil, ensureRole},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			for _, f := range exploreIdiom(t, tc.part, tc.do, createApp, changeApp, removeApp).Findings {
				t.Errorf("%s: %s\n%s", f.Check, f.Message, f.Story)
			}
		})
	}
}

// TestMissedJob: a Job that has finished need not be created again, but a later step may need another Job of the same name. The operator
// takes a missing Job for one that has run.
func TestMissedJob(t *testing.T) {
	for _, right := range []bool{true, false} {
		report := exploreIdiom(t, &batchv1.Job{}, func(ctx context.Context, c client.Client, app *corev1.ConfigMap) (ctrl.Result, error) {
			size := "s" + app.Data["size"] // a label
			job := &batchv1.Job{}
			err := c.Get(ctx, client.ObjectKeyFromObject(app), job)
			switch {
			case client.IgnoreNotFound(err) != nil:
				return ctrl.Result{}, err
			case err != nil && !right && app.Annotations["done"] != "":
				return ctrl.Result{}, nil
			case err == nil && job.Labels["size"] != size && app.Annotations["done"] != "":
				delete(app.Annotations, "done")
				return ctrl.Result{}, c.Update(ctx, app)
			case err == nil && job.Labels["size"] != size:
				return ctrl.Result{RequeueAfter: time.Second}, client.IgnoreNotFound(c.Delete(ctx, job,
					client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID}))
			}
			return runFor(ctx, c, app, size)
		}, createApp, changeApp)
		if found := len(report.Findings) > 0; found == right {
			t.Errorf("right: %v, found: %v", right, found)
			for _, f := range report.Findings {
				t.Error(f.Story)
			}
		}
	}
}

// runOnce runs a Job for an app, and never again.
func runOnce(ctx context.Context, c client.Client, app *corev1.ConfigMap) (ctrl.Result, error) {
	return runFor(ctx, c, app, "any-size")
}

// runFor runs a Job for a size of an app.
func runFor(ctx context.Context, c client.Client, app *corev1.ConfigMap, size string) (ctrl.Result, error) {
	if app.Annotations["done"] == size {
		return ctrl.Result{}, nil
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, Labels: map[string]string{"size": size}}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(job), job); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	} else if err != nil {
		job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		if err := controllerutil.SetControllerReference(app, job, c.Scheme()); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, c.Create(ctx, job)
	}
	if !metav1.IsControlledBy(job, app) {
		return ctrl.Result{RequeueAfter: time.Second}, nil // until the Job is gone
	}
	if !slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	}) {
		return ctrl.Result{}, nil
	}
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, "done", size)
	return ctrl.Result{}, c.Update(ctx, app)
}

// ensureRole makes a ClusterRole for an app, which cannot own it, and deletes the ClusterRole with the app.
func ensureRole(ctx context.Context, c client.Client, app *corev1.ConfigMap) (ctrl.Result, error) {
	const finalizer = "zoo.flyball.dev/role"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: app.Name}}
	if app.DeletionTimestamp != nil {
		err := client.IgnoreNotFound(c.Delete(ctx, role))
		if err == nil && controllerutil.RemoveFinalizer(app, finalizer) {
			err = client.IgnoreNotFound(c.Update(ctx, app))
		}
		return ctrl.Result{}, err
	}
	if controllerutil.AddFinalizer(app, finalizer) {
		return ctrl.Result{}, c.Update(ctx, app)
	}
	err := c.Get(ctx, client.ObjectKeyFromObject(role), role)
	if client.IgnoreNotFound(err) == nil && err != nil {
		err = c.Create(ctx, role)
	}
	return ctrl.Result{RequeueAfter: time.Minute}, err // somebody may have deleted the ClusterRole
}

// TestHeartbeat: an operator that writes at intervals never lets the world rest. The finding says so, and is short.
func TestHeartbeat(t *testing.T) {
	report := exploreIdiom(t, nil, func(ctx context.Context, c client.Client, app *corev1.ConfigMap) (ctrl.Result, error) {
		metav1.SetMetaDataAnnotation(&app.ObjectMeta, "seen", time.Now().Format(time.RFC3339))
		return ctrl.Result{RequeueAfter: time.Minute}, c.Update(ctx, app)
	}, createApp, changeApp, removeApp)
	if len(report.Findings) != 1 {
		t.Fatalf("%d findings, want 1", len(report.Findings))
	}
	f := report.Findings[0]
	if !strings.Contains(f.Message, "the operator writes at intervals") || strings.Count(f.Story, "\n") > 1000 || !strings.Contains(f.Story, " events are left out\n") {
		t.Errorf("%s: %s, in %d lines:\n%s", f.Check, f.Message, strings.Count(f.Story, "\n"), f.Story)
	}
}
