package tour

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/internal/await"
)

func newApp(name string) *appv1.AppService {
	return &appv1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appv1.AppServiceSpec{Replicas: 2, Image: "nginx:1.29"},
	}
}

func (w *world) startOperator(ctx context.Context) (err error) {
	w.operator, err = w.Start(ctx)
	return err
}

func (w *world) create(ctx context.Context) error {
	if err := w.c.Create(ctx, newApp(name)); err != nil {
		return err
	}
	if err := some[*appsv1.Deployment](ctx, w, &appsv1.DeploymentList{}, "Deployment", 1); err != nil {
		return err
	}
	if err := some[*appsv1.ReplicaSet](ctx, w, &appsv1.ReplicaSetList{}, "ReplicaSet", 1); err != nil {
		return err
	}
	if err := some[*corev1.Pod](ctx, w, &corev1.PodList{}, "Pods", 2); err != nil {
		return err
	}
	return some[*corev1.Service](ctx, w, &corev1.ServiceList{}, "Service", 1)
}

// some waits until the AppService has n objects of a kind, each with a controller.
func some[T client.Object](ctx context.Context, w *world, list client.ObjectList, what string, n int) error {
	return await.Until(ctx, w.c, list, func(all []T) string {
		owned := 0
		for _, o := range all {
			if metav1.GetControllerOf(o) != nil {
				owned++
			}
		}
		if owned != n {
			return fmt.Sprintf("%s: there are %[3]d, want %[2]d", what, n, owned)
		}
		return ""
	}, ofApp(name)...)
}

func (w *world) scale(ctx context.Context) error {
	if err := w.change(ctx, func(s *appv1.AppServiceSpec) { s.Replicas = 4 }); err != nil {
		return err
	}
	return w.converged(ctx)
}

func (w *world) changeImageByHand(ctx context.Context) error {
	d := &appsv1.Deployment{}
	if err := w.c.Get(ctx, key, d); err != nil {
		return err
	}
	before := client.MergeFrom(d.DeepCopy())
	d.Spec.Template.Spec.Containers[0].Image = "intruder:1"
	if err := w.c.Patch(ctx, d, before); err != nil {
		return err
	}
	if err := w.converged(ctx); err != nil {
		return err
	}
	return await.Event(ctx, w.c, namespace, func(e *corev1.Event) bool {
		return e.Reason == "DriftCorrected" && e.InvolvedObject.Name == name && strings.Contains(e.Message, "intruder:1")
	})
}

func (w *world) deleteDeploymentByHand(ctx context.Context) error {
	d := &appsv1.Deployment{}
	if err := w.c.Get(ctx, key, d); err != nil {
		return err
	}
	if err := w.c.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	if err := w.deployment(ctx, func(again *appsv1.Deployment) string {
		if again.UID == d.UID {
			return "the Deployment is still the old one"
		}
		return ""
	}); err != nil {
		return err
	}
	return w.converged(ctx)
}

// changeWhileStopped changes the spec while no operator is running, and then starts one.
func (w *world) changeWhileStopped(ctx context.Context) error {
	if err := w.operator.Stop(); err != nil {
		return err
	}
	before := &appsv1.Deployment{}
	if err := w.c.Get(ctx, key, before); err != nil {
		return err
	}
	const changes = 50
	for i := 1; i <= changes; i++ {
		if err := w.change(ctx, func(s *appv1.AppServiceSpec) {
			s.Replicas = int32(2 + i%4)
			s.Image = fmt.Sprintf("nginx:1.%d", i)
		}); err != nil {
			return err
		}
	}
	after := &appsv1.Deployment{}
	if err := w.c.Get(ctx, key, after); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return errors.New("the Deployment has changed although no operator ran")
	}
	if err := w.startOperator(ctx); err != nil {
		return err
	}
	return w.converged(ctx)
}

func (w *world) rejectOneReplica(ctx context.Context) error {
	before, err := w.read(ctx)
	if err != nil {
		return err
	}
	err = w.change(ctx, func(s *appv1.AppServiceSpec) { s.Replicas = 1 })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.replicas") {
		return fmt.Errorf("the update returned %v", err)
	}
	after, err := w.read(ctx)
	if err == nil && before.ResourceVersion != after.ResourceVersion {
		err = errors.New("the AppService has changed")
	}
	return err
}

// secondWaits starts two operators with leader election, and checks that only the first one is
// elected.
func (w *world) secondWaits(ctx context.Context) (err error) {
	if err := w.operator.Stop(); err != nil {
		return err
	}
	if w.operator, err = w.Start(ctx, withLeaderElection); err != nil {
		return err
	}
	holder, err := w.holder(ctx, "")
	if err != nil {
		return err
	}
	if w.second, err = w.StartReplica(withLeaderElection); err != nil {
		return err
	}
	// The cache syncs before the election begins, so a replica with a synced cache is running.
	if !w.second.Manager.GetCache().WaitForCacheSync(ctx) {
		return errors.New("the second operator has not started")
	}
	if err := w.change(ctx, func(s *appv1.AppServiceSpec) { s.Replicas = 3 }); err != nil {
		return err
	}
	if err := w.converged(ctx); err != nil {
		return err
	}
	select {
	case <-w.second.Manager.Elected():
		return errors.New("both operators are elected")
	default:
	}
	still, err := w.holder(ctx, "")
	if err == nil && still != holder {
		err = fmt.Errorf("the holder of the Lease has changed from %s to %s", holder, still)
	}
	return err
}

func (w *world) secondTakesOver(ctx context.Context) error {
	first, err := w.holder(ctx, "")
	if err != nil {
		return err
	}
	if err := w.operator.Stop(); err != nil {
		return err
	}
	if _, err := w.holder(ctx, first); err != nil {
		return err
	}
	if err := w.second.Elected(ctx); err != nil {
		return err
	}
	w.operator, w.second = w.second, nil
	if err := w.change(ctx, func(s *appv1.AppServiceSpec) { s.Replicas = 2 }); err != nil {
		return err
	}
	return w.converged(ctx)
}

// holder waits until the Lease has a holder other than that one, and returns it.
func (w *world) holder(ctx context.Context, other string) (holder string, err error) {
	err = await.Until(ctx, w.c, &coordinationv1.LeaseList{}, func(all []*coordinationv1.Lease) string {
		for _, l := range all {
			if id := l.Spec.HolderIdentity; l.Name == w.LeaderElectionID() && id != nil && *id != "" && *id != other {
				holder = *id
				return ""
			}
		}
		return "the Lease has no holder"
	}, client.InNamespace(namespace))
	return holder, err
}

// finalizer deletes an AppService with a finalizer. The dependents must be kept until the finalizer
// is removed.
func (w *world) finalizer(ctx context.Context) error {
	const guarded = "guarded"
	app := newApp(guarded)
	app.Finalizers = []string{"example.com/not-yet"}
	if err := w.c.Create(ctx, app); err != nil {
		return err
	}
	if err := w.pods(ctx, app, int(app.Spec.Replicas)); err != nil {
		return err
	}
	if err := w.c.Delete(ctx, app); err != nil {
		return err
	}
	deleted := &appv1.AppService{}
	if err := w.c.Get(ctx, client.ObjectKeyFromObject(app), deleted); err != nil {
		return fmt.Errorf("it was deleted in spite of its finalizer: %w", err)
	}
	if deleted.DeletionTimestamp == nil {
		return errors.New("it is not being deleted")
	}
	if err := w.pods(ctx, app, int(app.Spec.Replicas)); err != nil {
		return fmt.Errorf("its dependents were deleted before it: %w", err)
	}
	body := []byte(`{"metadata":{"finalizers":null}}`)
	if err := w.c.Patch(ctx, deleted, client.RawPatch(types.MergePatchType, body)); err != nil {
		return err
	}
	err := w.c.Get(ctx, client.ObjectKeyFromObject(app), &appv1.AppService{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("it still exists: %v", err)
	}
	return w.collected(ctx, guarded)
}

func (w *world) deleteEverything(ctx context.Context) error {
	app, err := w.read(ctx)
	if err != nil {
		return err
	}
	if err := w.c.Delete(ctx, app); err != nil {
		return err
	}
	return w.collected(ctx, name)
}

func (w *world) deleteNamespace(ctx context.Context) error {
	if err := w.operator.Stop(); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := w.c.Delete(ctx, ns); err != nil {
		return err
	}
	if err := await.Until(ctx, w.c, &corev1.NamespaceList{}, func(all []*corev1.Namespace) string {
		for _, n := range all {
			if n.Name == namespace {
				return fmt.Sprintf("the namespace is there: %v", n.Status.Conditions)
			}
		}
		return ""
	}); err != nil {
		return err
	}
	return w.nothingLeft(ctx)
}

// nothingLeft returns an error if there are objects of any kind in the namespace.
func (w *world) nothingLeft(ctx context.Context) error {
	left, err := w.ResourceVersions(ctx, namespace)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("these are left: %v", slices.Sorted(maps.Keys(left)))
	}
	return err
}
