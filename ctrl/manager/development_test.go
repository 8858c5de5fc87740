package manager_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/internal/development"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
)

// lab is a control plane in virtual time. Its managers run one small operator each.
type lab struct {
	*testing.T
	config *rest.Config
	// user is somebody else with a field manager of his own.
	user client.Client
	ctx  context.Context

	mu       sync.Mutex
	warnings []config.Warning
	managers sync.WaitGroup
}

// inLab calls f with a control plane without controllers, and stops the managers afterwards.
func inLab(t *testing.T, f func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		l := &lab{T: t, config: plane.Config()}
		if l.user, err = client.New(l.config, client.Options{FieldOwner: "kubectl-edit"}); err != nil {
			t.Fatal(err)
		}
		var stop context.CancelFunc
		l.ctx, stop = context.WithCancel(t.Context())
		defer func() {
			stop()
			l.managers.Wait()
			if err := plane.Stop(); err != nil {
				t.Error(err)
			}
		}()
		f(l)
	})
}

// must fails the test for an error.
func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// warned is the option OnWarning.
func (l *lab) warned(w config.Warning) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Log(w.Error())
	l.warnings = append(l.warnings, w)
}

// expect checks that there was exactly one warning, with these texts in its line.
func (l *lab) expect(check string, texts ...string) {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.warnings) != 1 {
		l.Fatalf("%d warnings instead of one of %s", len(l.warnings), check)
	}
	w := l.warnings[0]
	if strings.Contains(w.Error(), secretValue) {
		l.Error("the warning has a value")
	}
	for _, text := range append([]string{check + ": ", "docs/development.md#" + check}, texts...) {
		if !strings.Contains(w.Error(), text) {
			l.Errorf("%q is not in the warning", text)
		}
	}
	if w.Check != check || w.Object.Name == "" || w.Field == "" || w.Writer == "" {
		l.Errorf("the warning is incomplete: %+v", w)
	}
}

// quiet checks that there was no warning.
func (l *lab) quiet() {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.warnings) > 0 {
		l.Error("unexpected warnings")
	}
}

// reconciler is what an operator does.
type reconciler func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error)

// operator starts a manager with a controller of the kind of obj.
func (l *lab) operator(obj client.Object, r reconciler, change ...func(*manager.Options)) manager.Manager {
	l.Helper()
	options := manager.Options{
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Logger:     logr.Discard(),
		OnWarning:  l.warned,
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		// A reconciler may sleep for minutes.
		GracefulShutdownTimeout: ptr.To(time.Hour),
	}
	for _, c := range change {
		c(&options)
	}
	mgr, err := manager.New(l.config, options)
	l.must(err)
	l.control(mgr, "broken", obj, r)
	l.managers.Go(func() {
		if err := mgr.Start(l.ctx); err != nil {
			l.Log("the manager: ", err)
		}
	})
	synctest.Wait()
	return mgr
}

// control adds a controller to a manager.
func (l *lab) control(mgr manager.Manager, name string, obj client.Object, r reconciler) {
	l.Helper()
	c := mgr.GetClient()
	l.must(builder.ControllerManagedBy(mgr).Named(name).For(obj).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			if req.Name != "web" {
				return reconcile.Result{}, nil // what the control plane has itself
			}
			return r(ctx, c, req)
		})))
}

// web is a ConfigMap. With a field, as the API server does not manage the fields of an object that was
// created without any.
func web() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Data:       map[string]string{"first": "1"},
	}
}

// deployment is a Deployment without Pods, as there are no controllers.
func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

// set returns a reconciler that sets a key of the ConfigMap.
func set(key, value string) reconciler {
	return func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
		var cm corev1.ConfigMap
		if err := c.Get(ctx, req.NamespacedName, &cm); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if cm.Data[key] == value {
			return reconcile.Result{}, nil
		}
		before := client.MergeFrom(cm.DeepCopy())
		cm.Data[key] = value
		return reconcile.Result{}, c.Patch(ctx, &cm, before)
	}
}

// secretValue is in no warning.
const secretValue = "hunter2"

func TestWarningHotLoop(t *testing.T) {
	inLab(t, func(l *lab) {
		n := 0
		l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			if n++; n > 200 {
				return reconcile.Result{}, nil
			}
			return set("n", fmt.Sprint(secretValue, n))(ctx, c, req)
		})
		l.must(l.user.Create(l.ctx, web()))
		time.Sleep(time.Hour)
		l.expect(config.CheckHotLoops, "ConfigMap default/web: data.n", `controller "broken"`)
	})
}

func TestWarningFightWithAnotherManager(t *testing.T) {
	inLab(t, func(l *lab) {
		l.operator(web(), set("mode", "ours"))
		l.must(l.user.Create(l.ctx, web()))
		for range 20 {
			time.Sleep(15 * time.Second)
			l.must(l.user.Patch(l.ctx, web(), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"mode":"`+secretValue+`"}}`)),
				client.FieldOwner("gitops")))
		}
		time.Sleep(time.Minute)
		l.expect(config.CheckFights, "ConfigMap default/web: data.mode", `controller "broken" (field manager`, `field manager "gitops"`)
	})
}

// TestNoWarningOfTrigger: somebody sets an annotation again and again, as with Argo CD's refresh, and
// the operator removes it when it has done what that asks for.
func TestNoWarningOfTrigger(t *testing.T) {
	for _, others := range []map[string]string{nil, {"other": "1"}} {
		inLab(t, func(l *lab) {
			l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
				var cm corev1.ConfigMap
				if err := c.Get(ctx, req.NamespacedName, &cm); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				if _, asked := cm.Annotations["example.com/refresh"]; !asked {
					return reconcile.Result{}, nil
				}
				before := client.MergeFrom(cm.DeepCopy())
				delete(cm.Annotations, "example.com/refresh")
				return reconcile.Result{}, c.Patch(ctx, &cm, before)
			})
			obj := web()
			obj.Annotations = others
			l.must(l.user.Create(l.ctx, obj))
			for range 20 {
				time.Sleep(15 * time.Second)
				l.must(l.user.Patch(l.ctx, web(), client.RawPatch("application/merge-patch+json",
					[]byte(`{"metadata":{"annotations":{"example.com/refresh":"normal"}}}`)), client.FieldOwner("argocd")))
			}
			time.Sleep(time.Minute)
			l.quiet()
		})
	}
}

// TestNoWarningOfEdits: a person changes a field again and again, and will stop.
func TestNoWarningOfEdits(t *testing.T) {
	inLab(t, func(l *lab) {
		l.operator(web(), set("mode", "ours"))
		l.must(l.user.Create(l.ctx, web()))
		for range 20 {
			time.Sleep(15 * time.Second)
			l.must(l.user.Patch(l.ctx, web(), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"mode":"theirs"}}`))))
		}
		time.Sleep(time.Minute)
		l.quiet()
	})
}

func TestWarningFightOfTwoControllers(t *testing.T) {
	inLab(t, func(l *lab) {
		var writes atomic.Int32
		limited := func(r reconciler) reconciler {
			return func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
				if writes.Add(1) > 100 {
					return reconcile.Result{}, nil
				}
				time.Sleep(time.Second)
				return r(ctx, c, req)
			}
		}
		mgr := l.operator(web(), limited(set("mode", "a")))
		l.control(mgr, "other", web(), limited(set("mode", "b")))
		l.must(l.user.Create(l.ctx, web()))
		time.Sleep(time.Hour)
		l.expect(config.CheckFights, "data.mode", `controller "broken"`, `controller "other"`)
	})
}

// TestNoWarningOfSelfHealing: what a user changes by hand now and then is no fight.
func TestNoWarningOfSelfHealing(t *testing.T) {
	inLab(t, func(l *lab) {
		l.operator(web(), set("mode", "ours"))
		l.must(l.user.Create(l.ctx, web()))
		for range 3 {
			time.Sleep(5 * time.Second)
			l.must(l.user.Patch(l.ctx, web(), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"mode":"theirs"}}`))))
		}
		time.Sleep(time.Hour)
		l.quiet()
	})
}

// child returns a reconciler that creates a child that belongs to the object, as change wants it.
func child(change func(*corev1.Secret, *metav1.OwnerReference)) reconciler {
	return func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
		var cm corev1.ConfigMap
		if err := c.Get(ctx, req.NamespacedName, &cm); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		owner := metav1.NewControllerRef(&cm, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: "child"}}
		change(secret, owner)
		secret.OwnerReferences = []metav1.OwnerReference{*owner}
		return reconcile.Result{}, client.IgnoreAlreadyExists(c.Create(ctx, secret))
	}
}

func TestWarningOwners(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Secret, *metav1.OwnerReference)
		want   []string
	}{
		"in another namespace": {
			func(s *corev1.Secret, _ *metav1.OwnerReference) { s.Namespace = "kube-system" },
			[]string{"Secret kube-system/child", "stands in the namespace default"},
		},
		"that does not exist": {
			func(_ *corev1.Secret, o *metav1.OwnerReference) { o.UID = "0" },
			[]string{"Secret default/child", "ConfigMap web with the UID 0 does not exist"},
		},
		"as it should be": {func(*corev1.Secret, *metav1.OwnerReference) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.must(client.IgnoreAlreadyExists(l.user.Create(l.ctx,
					&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})))
				l.operator(web(), child(c.change))
				l.must(l.user.Create(l.ctx, web()))
				time.Sleep(time.Minute)
				if c.want == nil {
					l.quiet()
					return
				}
				l.expect(config.CheckOwners, append(c.want, "metadata.ownerReferences", `controller "broken"`)...)
			})
		})
	}
}

// TestNoWarningOfDeletedOwner: an owner that is deleted while its child is created is no mistake.
func TestNoWarningOfDeletedOwner(t *testing.T) {
	inLab(t, func(l *lab) {
		l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			return child(func(*corev1.Secret, *metav1.OwnerReference) {
				l.must(client.IgnoreNotFound(l.user.Delete(ctx, web())))
			})(ctx, c, req)
		})
		l.must(l.user.Create(l.ctx, web()))
		time.Sleep(time.Minute)
		l.quiet()
		l.must(l.user.Get(l.ctx, client.ObjectKey{Namespace: "default", Name: "child"}, &corev1.Secret{}))
	})
}

const finalizer = "example.com/cleanup"

// finalize returns a reconciler that adds a finalizer, and handles the deletion as end does.
func finalize(end func(context.Context, client.Client, *corev1.ConfigMap) (reconcile.Result, error)) reconciler {
	return func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
		var cm corev1.ConfigMap
		if err := c.Get(ctx, req.NamespacedName, &cm); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if !cm.DeletionTimestamp.IsZero() {
			return end(ctx, c, &cm)
		}
		if !controllerutil.AddFinalizer(&cm, finalizer) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, c.Update(ctx, &cm)
	}
}

func TestWarningFinalizers(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(context.Context, client.Client, *corev1.ConfigMap) (reconcile.Result, error)
		want bool
	}{
		"forgotten": {func(context.Context, client.Client, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}, true},
		"still being cleaned up": {func(context.Context, client.Client, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Minute}, nil
		}, false},
		"still running": {func(context.Context, client.Client, *corev1.ConfigMap) (reconcile.Result, error) {
			time.Sleep(5 * time.Minute)
			return reconcile.Result{RequeueAfter: time.Minute}, nil
		}, false},
		"removed": {func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (reconcile.Result, error) {
			controllerutil.RemoveFinalizer(cm, finalizer)
			return reconcile.Result{}, c.Update(ctx, cm)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.operator(web(), finalize(c.end))
				l.must(l.user.Create(l.ctx, web()))
				synctest.Wait()
				l.must(l.user.Delete(l.ctx, web()))
				time.Sleep(time.Hour)
				if c.want {
					l.expect(config.CheckFinalizers, "ConfigMap default/web: metadata.finalizers[example.com/cleanup]", "this operator")
				} else {
					l.quiet()
				}
			})
		})
	}
}

// TestNoWarningOfFinalizerThatWaits: the finalizer is removed when the last dependent is gone. Its
// deletion takes long, and until then nothing is planned.
func TestNoWarningOfFinalizerThatWaits(t *testing.T) {
	inLab(t, func(l *lab) {
		l.operator(web(), finalize(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (reconcile.Result, error) {
			var secrets corev1.SecretList
			if err := c.List(ctx, &secrets, client.InNamespace(cm.Namespace)); err != nil {
				return reconcile.Result{}, err
			}
			for i := range secrets.Items {
				if err := c.Delete(ctx, &secrets.Items[i]); client.IgnoreNotFound(err) != nil {
					return reconcile.Result{}, err
				}
			}
			if len(secrets.Items) > 0 {
				return reconcile.Result{}, nil
			}
			controllerutil.RemoveFinalizer(cm, finalizer)
			return reconcile.Result{}, c.Update(ctx, cm)
		}))
		owner := web()
		l.must(l.user.Create(l.ctx, owner))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: "slow", Finalizers: []string{"cloud.example.com/volume"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}}
		l.must(l.user.Create(l.ctx, secret, client.FieldOwner("cloud")))
		synctest.Wait()
		l.must(l.user.Delete(l.ctx, web()))
		time.Sleep(30 * time.Minute)
		l.quiet()
		l.must(l.user.Patch(l.ctx, secret, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		time.Sleep(time.Minute)
		l.must(l.user.Patch(l.ctx, web(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
		time.Sleep(time.Hour)
		l.quiet()
		if err := l.user.Get(l.ctx, client.ObjectKeyFromObject(web()), web()); client.IgnoreNotFound(err) != nil || err == nil {
			l.Error("the object is still there", err)
		}
	})
}

// TestWarningFinalizerOfUser: a finalizer in a manifest is nobody's.
func TestWarningFinalizerOfUser(t *testing.T) {
	inLab(t, func(l *lab) {
		l.operator(web(), func(context.Context, client.Client, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		cm := web()
		cm.Finalizers = []string{finalizer, "kubernetes.io/known"}
		l.must(l.user.Create(l.ctx, cm))
		l.must(l.user.Delete(l.ctx, web()))
		time.Sleep(time.Hour)
		l.expect(config.CheckFinalizers, "metadata.finalizers[example.com/cleanup]", `field manager "kubectl-edit", which does not remove it`)
	})
}

func TestWarningStatus(t *testing.T) {
	for name, c := range map[string]struct {
		observe func(*appsv1.Deployment)
		want    string
	}{
		"behind": {func(d *appsv1.Deployment) {
			if d.Status.ObservedGeneration == 0 {
				d.Status.ObservedGeneration = d.Generation
			}
		}, "is behind metadata.generation"},
		"without it": {func(*appsv1.Deployment) {}, "has no observedGeneration"},
		"up to date": {func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.operator(&appsv1.Deployment{}, observe(c.observe))
				l.must(l.user.Create(l.ctx, deployment()))
				time.Sleep(time.Minute)
				l.must(l.user.Patch(l.ctx, deployment(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`))))
				time.Sleep(time.Hour)
				if c.want != "" {
					l.expect(config.CheckStatus, "Deployment.apps default/web: status.observedGeneration", `controller "broken"`, c.want)
				} else {
					l.quiet()
				}
			})
		})
	}
}

// TestNoWarningOfStatusThatIsLeftAlone: of two Deployments the operator reconciles the one of its class,
// until it is paused.
func TestNoWarningOfStatusThatIsLeftAlone(t *testing.T) {
	inLab(t, func(l *lab) {
		sync := observe(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation })
		l.operator(&appsv1.Deployment{}, func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			var d appsv1.Deployment
			if err := c.Get(ctx, req.NamespacedName, &d); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if d.Spec.Paused || d.Annotations["class"] == "foreign" {
				return reconcile.Result{}, nil
			}
			return sync(ctx, c, req)
		})
		l.must(l.user.Create(l.ctx, deployment()))
		foreign := deployment()
		foreign.Name, foreign.Annotations = "foreign", map[string]string{"class": "foreign"}
		l.must(l.user.Create(l.ctx, foreign))
		time.Sleep(time.Minute)
		for _, d := range []*appsv1.Deployment{deployment(), foreign} {
			l.must(l.user.Patch(l.ctx, d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":2,"paused":true}}`))))
		}
		time.Sleep(time.Hour)
		l.quiet()
	})
}

// observe returns a reconciler that writes the status of a Deployment.
func observe(change func(*appsv1.Deployment)) reconciler {
	return func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
		var d appsv1.Deployment
		if err := c.Get(ctx, req.NamespacedName, &d); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		before := d.Status.DeepCopy()
		d.Status.Replicas = *d.Spec.Replicas
		change(&d)
		if equality.Semantic.DeepEqual(*before, d.Status) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, c.Status().Update(ctx, &d)
	}
}

// adopt returns a reconciler that makes the Secrets that it selects its own.
func adopt(own func(*corev1.Secret) bool) reconciler {
	return func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
		var cm corev1.ConfigMap
		if err := c.Get(ctx, req.NamespacedName, &cm); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		var secrets corev1.SecretList
		if err := c.List(ctx, &secrets, client.InNamespace(req.Namespace), client.MatchingLabels{"app": "web"}); err != nil {
			return reconcile.Result{}, err
		}
		for _, s := range secrets.Items {
			if metav1.IsControlledBy(&s, &cm) || !own(&s) {
				continue
			}
			s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&cm, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
			if err := c.Update(ctx, &s); err != nil {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{}, nil
	}
}

func TestWarningAdoption(t *testing.T) {
	orphan := func(*corev1.Secret) bool { return true }
	for name, c := range map[string]struct {
		controlled bool
		own        func(*corev1.Secret) bool
		want       string
	}{
		"of somebody else's object":    {false, orphan, `The selector "app=web" has matched an object with labels of field manager "kubectl-edit"`},
		"of another controller's":      {true, orphan, "was controlled by ConfigMap other, which exists"},
		"not of what it did not make":  {false, func(s *corev1.Secret) bool { return s.Labels["made-by"] == "us" }, ""},
		"not of what has a controller": {true, func(s *corev1.Secret) bool { return metav1.GetControllerOf(s) == nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", Labels: map[string]string{"app": "web"}}}
				if c.controlled {
					other := web()
					other.Name = "other"
					l.must(l.user.Create(l.ctx, other))
					secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
				}
				l.must(l.user.Create(l.ctx, secret))
				l.operator(web(), adopt(c.own))
				l.must(l.user.Create(l.ctx, web()))
				time.Sleep(time.Hour)
				if c.want != "" {
					l.expect(config.CheckAdoption, "Secret default/s: metadata.ownerReferences", `controller "broken"`, c.want)
				} else {
					l.quiet()
				}
			})
		})
	}
}

func TestWarningConflicts(t *testing.T) {
	inLab(t, func(l *lab) {
		l.must(l.user.Create(l.ctx, web()))
		stale := web()
		l.must(l.user.Get(l.ctx, client.ObjectKeyFromObject(stale), stale))
		n := 0
		l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			if n++; n > 15 {
				return reconcile.Result{}, nil
			}
			// A copy that is kept in memory is old as soon as somebody writes.
			l.must(l.user.Patch(ctx, web(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n))))
			stale.Data = map[string]string{"ours": secretValue}
			return reconcile.Result{}, c.Update(ctx, stale.DeepCopy())
		})
		time.Sleep(time.Hour)
		l.expect(config.CheckConflicts, "ConfigMap default/web: metadata.resourceVersion",
			`controller "broken"`, `in conflict with field manager "kubectl-edit"`)
	})
}

func TestWarningConflictsOfApply(t *testing.T) {
	inLab(t, func(l *lab) {
		theirs := web()
		theirs.Data = map[string]string{"mode": "theirs"}
		l.must(l.user.Create(l.ctx, theirs))
		l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			ours := corev1apply.ConfigMap("web", "default").WithData(map[string]string{"mode": secretValue})
			return reconcile.Result{}, c.Apply(ctx, ours, client.FieldOwner("operator"))
		})
		time.Sleep(time.Hour)
		l.expect(config.CheckConflicts, "ConfigMap default/web: .data.mode", `field manager "operator"`, `field manager "kubectl-edit"`)
	})
}

// TestNoWarningOfRetries: RetryOnConflict is what conflicts are for.
func TestNoWarningOfRetries(t *testing.T) {
	inLab(t, func(l *lab) {
		l.must(l.user.Create(l.ctx, web()))
		l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			tries := 0
			return reconcile.Result{}, retry.RetryOnConflict(retry.DefaultRetry, func() error {
				cm := web()
				if err := c.Get(ctx, req.NamespacedName, cm); err != nil || cm.Data["ours"] != "" {
					return err
				}
				if tries++; tries < 4 {
					l.must(l.user.Patch(ctx, web(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"n":"%d"}}`, tries))))
				}
				cm.Data = map[string]string{"ours": "1"}
				return c.Update(ctx, cm)
			})
		})
		time.Sleep(time.Hour)
		l.quiet()
	})
}

// TestWarningTwoReplicas: two managers without leader election take turns at being faster. The
// warnings of the second one are its own.
func TestWarningTwoReplicas(t *testing.T) {
	inLab(t, func(l *lab) {
		replica := func(slow int64) reconciler {
			return func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
				var d appsv1.Deployment
				if err := c.Get(ctx, req.NamespacedName, &d); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				if d.Generation%2 == slow {
					time.Sleep(time.Second)
				}
				return observe(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation })(ctx, c, req)
			}
		}
		l.operator(&appsv1.Deployment{}, replica(0))
		l.operator(&appsv1.Deployment{}, replica(1), func(o *manager.Options) {
			o.Development = ptr.To(false)
		})
		l.must(l.user.Create(l.ctx, deployment()))
		for i := range 10 {
			time.Sleep(10 * time.Second)
			l.must(l.user.Patch(l.ctx, deployment(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, i))))
		}
		time.Sleep(time.Minute)
		l.expect(config.CheckTwoLeaders, "Deployment.apps default/web: status", "another process or client", "LeaderElection")
	})
}

// TestWarningLostLease: a controller with requests that outlive the lease.
func TestWarningLostLease(t *testing.T) {
	inLab(t, func(l *lab) {
		l.must(l.user.Create(l.ctx, web()))
		l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			time.Sleep(time.Hour) // a slow request, say
			return set("late", "1")(context.WithoutCancel(ctx), c, req)
		}, func(o *manager.Options) {
			o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "operator", "default"
		})
		time.Sleep(time.Minute)
		var lease coordinationv1.Lease
		l.must(l.user.Get(l.ctx, client.ObjectKey{Namespace: "default", Name: "operator"}, &lease))
		before := client.MergeFrom(lease.DeepCopy())
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("another"), ptr.To(metav1.NowMicro())
		lease.Spec.LeaseDurationSeconds = ptr.To[int32](3600)
		l.must(l.user.Patch(l.ctx, &lease, before))
		time.Sleep(2 * time.Hour)
		l.expect(config.CheckTwoLeaders, "ConfigMap default/web", `controller "broken"`, "The lease was lost")
	})
}

// TestDevelopmentDefault: it is on for a control plane in the process, and not for others.
func TestDevelopmentDefault(t *testing.T) {
	inLab(t, func(l *lab) {
		for name, c := range map[string]struct {
			config *rest.Config
			option *bool
			want   bool
		}{
			"in the process":             {l.config, nil, true},
			"in the process, turned off": {l.config, ptr.To(false), false},
			"elsewhere":                  {&rest.Config{Host: "http://localhost:1"}, nil, false},
			"elsewhere, turned on":       {&rest.Config{Host: "http://localhost:1"}, ptr.To(true), true},
		} {
			mgr, err := manager.New(c.config, manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}, Development: c.option})
			l.must(err)
			if got := mgr.(development.Owner).DevelopmentMonitor() != nil; got != c.want {
				l.Errorf("%s: %v", name, got)
			}
		}
	})
}

// TestWarningAfterInformerIsReplaced: an informer that was removed and is created again is observed.
func TestWarningAfterInformerIsReplaced(t *testing.T) {
	inLab(t, func(l *lab) {
		mgr := l.operator(web(), func(context.Context, client.Client, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		_, err := mgr.GetCache().GetInformer(l.ctx, &corev1.Secret{})
		l.must(err)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", Finalizers: []string{finalizer}}}
		l.must(l.user.Create(l.ctx, secret))
		l.must(l.user.Patch(l.ctx, secret, client.RawPatch("application/merge-patch+json", []byte(`{"stringData":{"p":"`+secretValue+`"}}`))))
		time.Sleep(time.Minute)
		l.must(mgr.GetCache().RemoveInformer(l.ctx, secret))
		_, err = mgr.GetCache().GetInformer(l.ctx, secret)
		l.must(err)
		l.must(l.user.Delete(l.ctx, secret))
		time.Sleep(time.Hour)
		l.expect(config.CheckFinalizers, "Secret default/s")
	})
}

// TestWarningLog: without OnWarning, a warning is one line of the manager's logger.
func TestWarningLog(t *testing.T) {
	inLab(t, func(l *lab) {
		var mu sync.Mutex
		var lines []string
		l.operator(web(), child(func(s *corev1.Secret, _ *metav1.OwnerReference) {
			s.Namespace, s.StringData = "kube-system", map[string]string{"password": secretValue}
		}), func(o *manager.Options) {
			o.OnWarning = nil
			o.Logger = funcr.New(func(prefix, args string) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, prefix+" "+args)
			}, funcr.Options{})
		})
		l.must(client.IgnoreAlreadyExists(l.user.Create(l.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})))
		time.Sleep(time.Minute)
		l.must(l.user.Create(l.ctx, web()))
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		all := strings.Join(lines, "\n")
		for text, want := range map[string]int{
			`"check"="owners" "kind"="Secret" "object"={"name"="child" "namespace"="kube-system"} "field"="metadata.ownerReferences"`: 1,
			`docs/development.md#owners`: 1, secretValue: 0,
		} {
			if n := strings.Count(all, text); n != want {
				l.Errorf("%q is %d times, not %d, in\n%s", text, n, want, all)
			}
		}
	})
}
