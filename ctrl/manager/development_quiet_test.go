package manager_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// inNamespace returns a reconciler of the objects of one namespace, as one of several shards is.
func inNamespace(namespace string, r reconciler) reconciler {
	return func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
		if req.Namespace != namespace {
			return reconcile.Result{}, nil
		}
		return r(ctx, c, req)
	}
}

// merge patches an object as a user.
func (l *lab) merge(obj client.Object, patch string, opts ...client.PatchOption) {
	l.Helper()
	l.must(l.user.Patch(l.ctx, obj, client.RawPatch("application/merge-patch+json", []byte(patch)), opts...))
}

// namespace creates a namespace unless it exists.
func (l *lab) namespace(name string) {
	l.Helper()
	l.must(client.IgnoreAlreadyExists(l.user.Create(l.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
}

// TestNoWarningOfShards: two replicas without an election have different objects. That of the other
// one takes long to clean up.
func TestNoWarningOfShards(t *testing.T) {
	inLab(t, func(l *lab) {
		l.namespace("other")
		upToDate := observe(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation })
		cleanUp := finalize(func(context.Context, client.Client, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Minute}, nil
		})
		for _, namespace := range []string{"default", "other"} {
			mgr := l.operator(&appsv1.Deployment{}, inNamespace(namespace, upToDate))
			l.control(mgr, "finalizing", web(), inNamespace(namespace, cleanUp))
			d, cm := deployment(), web()
			d.Namespace, cm.Namespace = namespace, namespace
			l.must(l.user.Create(l.ctx, d))
			l.must(l.user.Create(l.ctx, cm))
		}
		for i := range 10 {
			for _, namespace := range []string{"default", "other"} {
				d := deployment()
				d.Namespace = namespace
				l.merge(d, fmt.Sprintf(`{"spec":{"replicas":%d}}`, i))
			}
			time.Sleep(10 * time.Second)
		}
		l.must(l.user.Delete(l.ctx, web()))
		time.Sleep(time.Hour)
		l.quiet()
	})
}

// TestNoWarningOfStandby: the leader takes half an hour for a cleanup, which a replica that waits
// for the lease watches; then that takes over, and goes on.
func TestNoWarningOfStandby(t *testing.T) {
	inLab(t, func(l *lab) {
		elect := func(o *manager.Options) {
			o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "operator", "default"
		}
		slow := finalize(func(ctx context.Context, _ client.Client, _ *corev1.ConfigMap) (reconcile.Result, error) {
			select {
			case <-ctx.Done():
			case <-time.After(8 * time.Minute):
			}
			return reconcile.Result{RequeueAfter: time.Second}, nil
		})
		l.must(l.user.Create(l.ctx, web()))
		l.operator(web(), slow, elect)
		time.Sleep(time.Minute)
		standby := l.operator(web(), slow, elect)
		_, err := standby.GetCache().GetInformer(l.ctx, web()) // as for an index
		l.must(err)
		time.Sleep(time.Minute)
		l.must(l.user.Delete(l.ctx, web()))
		time.Sleep(30 * time.Minute)
		l.quiet()
	})
}

// TestWarningFinalizersOfLeader: in the leader, a forgotten finalizer is reported as without an
// election.
func TestWarningFinalizersOfLeader(t *testing.T) {
	inLab(t, func(l *lab) {
		l.must(l.user.Create(l.ctx, web()))
		for range 2 {
			mgr := l.operator(web(), finalize(func(context.Context, client.Client, *corev1.ConfigMap) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), func(o *manager.Options) {
				o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "operator", "default"
			})
			_, err := mgr.GetCache().GetInformer(l.ctx, web())
			l.must(err)
			time.Sleep(time.Minute)
		}
		l.must(l.user.Delete(l.ctx, web()))
		time.Sleep(time.Hour)
		l.expect(config.CheckFinalizers, "ConfigMap default/web: metadata.finalizers[example.com/cleanup]", "this operator")
	})
}

// TestNoWarningOfWriteInFlight: a write has begun before the lease was lost, or just then.
func TestNoWarningOfWriteInFlight(t *testing.T) {
	inLab(t, func(l *lab) {
		l.must(l.user.Create(l.ctx, web()))
		l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			<-ctx.Done()
			return set("late", "1")(context.WithoutCancel(ctx), c, req) // an unlucky moment
		}, func(o *manager.Options) {
			o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "operator", "default"
		})
		time.Sleep(time.Minute)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "operator"}}
		l.must(l.user.Get(l.ctx, client.ObjectKeyFromObject(lease), lease))
		before := client.MergeFrom(lease.DeepCopy())
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("another"), ptr.To(metav1.NowMicro())
		lease.Spec.LeaseDurationSeconds = ptr.To[int32](3600)
		l.must(l.user.Patch(l.ctx, lease, before))
		time.Sleep(time.Hour)
		l.quiet()
		cm := web()
		l.must(l.user.Get(l.ctx, client.ObjectKeyFromObject(cm), cm))
		if cm.Data["late"] == "" {
			l.Error("nothing was written")
		}
	})
}

// addCondition returns a change that gives a Deployment a condition for its generation.
func addCondition(name string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		kept := d.Status.Conditions[:0:0]
		for _, c := range d.Status.Conditions {
			if string(c.Type) != name {
				kept = append(kept, c)
			}
		}
		d.Status.Conditions = append(kept, appsv1.DeploymentCondition{Type: appsv1.DeploymentConditionType(name),
			Status: corev1.ConditionTrue, Message: strconv.FormatInt(d.Generation, 10)})
	}
}

// TestNoWarningOfSlowStatus: of two controllers that write the status, the one that sets
// observedGeneration takes minutes.
func TestNoWarningOfSlowStatus(t *testing.T) {
	inLab(t, func(l *lab) {
		fast := observe(addCondition("Fast"))
		slow := observe(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation })
		mgr := l.operator(&appsv1.Deployment{}, fast)
		l.control(mgr, "slow", &appsv1.Deployment{}, func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			var d appsv1.Deployment
			if err := c.Get(ctx, req.NamespacedName, &d); err != nil || d.Status.ObservedGeneration == d.Generation {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			time.Sleep(5 * time.Minute)
			if d.Spec.Replicas != nil && *d.Spec.Replicas == 3 {
				return reconcile.Result{RequeueAfter: 5 * time.Minute}, nil
			}
			return slow(ctx, c, req)
		})
		l.must(l.user.Create(l.ctx, deployment()))
		time.Sleep(30 * time.Minute)
		for i := range 3 {
			l.merge(deployment(), fmt.Sprintf(`{"spec":{"replicas":%d}}`, i+2))
			time.Sleep(30 * time.Minute)
		}
		l.quiet()
	})
}

// TestNoWarningOfStatusOfOthers: the operator adds a condition to the status of another controller,
// in another process, which is slow.
func TestNoWarningOfStatusOfOthers(t *testing.T) {
	inLab(t, func(l *lab) {
		l.operator(&appsv1.Deployment{}, observe(addCondition("Checked")))
		d := deployment()
		l.must(l.user.Create(l.ctx, d))
		for i := range 5 {
			d := deployment()
			l.must(l.user.Get(l.ctx, client.ObjectKeyFromObject(d), d))
			before := client.MergeFrom(d.DeepCopy())
			d.Status.ObservedGeneration = d.Generation
			l.must(l.user.Status().Patch(l.ctx, d, before, client.FieldOwner("deployments")))
			time.Sleep(10 * time.Second)
			l.merge(d, fmt.Sprintf(`{"spec":{"replicas":%d}}`, i+2))
			time.Sleep(10 * time.Minute)
		}
		l.quiet()
	})
}

// TestNoWarningOfAnotherObjectOfTheName: the operator's object is deleted, and one of that name is
// created that is not the operator's.
func TestNoWarningOfAnotherObjectOfTheName(t *testing.T) {
	inLab(t, func(l *lab) {
		sync := observe(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation })
		l.operator(&appsv1.Deployment{}, func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			var d appsv1.Deployment
			if err := c.Get(ctx, req.NamespacedName, &d); err != nil || d.Annotations["class"] == "foreign" {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			return sync(ctx, c, req)
		})
		l.must(l.user.Create(l.ctx, deployment()))
		time.Sleep(time.Minute)
		l.must(l.user.Delete(l.ctx, deployment()))
		foreign := deployment()
		foreign.Annotations = map[string]string{"class": "foreign"}
		l.must(l.user.Create(l.ctx, foreign))
		time.Sleep(time.Minute)
		l.merge(deployment(), `{"metadata":{"labels":{"a":"b"}}}`)
		time.Sleep(time.Hour)
		l.quiet()
	})
}

// TestNoWarningOfElementsOfAList: two writers add and remove their own elements of a list.
func TestNoWarningOfElementsOfAList(t *testing.T) {
	inLab(t, func(l *lab) {
		l.must(l.user.Create(l.ctx, web()))
		var mine bool
		l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			var cm corev1.ConfigMap
			if err := c.Get(ctx, req.NamespacedName, &cm); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if want := cm.Annotations["want"] == "1"; want != mine {
				before := client.MergeFromWithOptions(cm.DeepCopy(), client.MergeFromWithOptimisticLock{})
				cm.Finalizers = without(cm.Finalizers, finalizer)
				if want {
					cm.Finalizers = append(cm.Finalizers, finalizer)
				}
				mine = want
				return reconcile.Result{}, c.Patch(ctx, &cm, before)
			}
			return reconcile.Result{}, nil
		})
		const theirs = "storage.example.com/volume"
		for i := range 20 {
			cm := web()
			l.must(l.user.Get(l.ctx, client.ObjectKeyFromObject(cm), cm))
			before := client.MergeFromWithOptions(cm.DeepCopy(), client.MergeFromWithOptimisticLock{})
			cm.Annotations = map[string]string{"want": strconv.Itoa(i % 2)}
			cm.Finalizers = without(cm.Finalizers, theirs)
			if i%2 == 1 {
				cm.Finalizers = append(cm.Finalizers, theirs)
			}
			l.must(l.user.Patch(l.ctx, cm, before, client.FieldOwner("storage")))
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		l.quiet()
	})
}

// without returns a list without an element.
func without(list []string, element string) (kept []string) {
	for _, e := range list {
		if e != element {
			kept = append(kept, e)
		}
	}
	return kept
}

// TestNoWarningOfSharedCounter: two writers increment a number, and neither restores its own.
func TestNoWarningOfSharedCounter(t *testing.T) {
	inLab(t, func(l *lab) {
		l.operator(web(), func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
			var cm corev1.ConfigMap
			if err := c.Get(ctx, req.NamespacedName, &cm); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			n, _ := strconv.Atoi(cm.Data["n"])
			if n%2 == 0 {
				return reconcile.Result{}, nil
			}
			return set("n", strconv.Itoa(n+1))(ctx, c, req)
		})
		l.must(l.user.Create(l.ctx, web()))
		for i := range 20 {
			l.merge(web(), fmt.Sprintf(`{"data":{"n":"%d"}}`, 2*i+1), client.FieldOwner("allocator"))
			time.Sleep(15 * time.Second)
		}
		time.Sleep(time.Minute)
		l.quiet()
	})
}

// TestNoWarningOfDriftInSuite: each test of a suite creates the object, changes a field, and deletes the
// object when the operator has restored the field.
func TestNoWarningOfDriftInSuite(t *testing.T) {
	inLab(t, func(l *lab) {
		l.operator(web(), set("mode", "ours"))
		for range 10 {
			l.must(l.user.Create(l.ctx, web()))
			time.Sleep(10 * time.Second)
			l.merge(web(), `{"data":{"mode":"theirs"}}`, client.FieldOwner("suite"))
			time.Sleep(10 * time.Second)
			l.must(l.user.Delete(l.ctx, web()))
			time.Sleep(10 * time.Second)
		}
		l.quiet()
	})
}

// TestNoWarningOfOwnersOfOthers: an object has a reference to an owner that does not exist, which
// somebody else has set, and the operator labels the object.
func TestNoWarningOfOwnersOfOthers(t *testing.T) {
	inLab(t, func(l *lab) {
		cm := web()
		cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "gone", UID: "1-2-3"}}
		l.must(l.user.Create(l.ctx, cm, client.FieldOwner("another")))
		l.operator(web(), set("mode", "ours"))
		time.Sleep(time.Hour)
		l.quiet()
	})
}

// TestWarningTwoReplicasOfOneObject: two replicas that take turns at one object are seen beside a
// third one that has others.
func TestWarningTwoReplicasOfOneObject(t *testing.T) {
	inLab(t, func(l *lab) {
		l.namespace("other")
		upToDate := observe(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation })
		turn := func(mine int64) reconciler {
			return inNamespace("default", func(ctx context.Context, c client.Client, req reconcile.Request) (reconcile.Result, error) {
				var d appsv1.Deployment
				if err := c.Get(ctx, req.NamespacedName, &d); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				if d.Generation%2 != mine {
					time.Sleep(time.Second)
				}
				return upToDate(ctx, c, req)
			})
		}
		off := func(o *manager.Options) { o.Development = ptr.To(false) }
		l.operator(&appsv1.Deployment{}, turn(0))
		l.operator(&appsv1.Deployment{}, turn(1), off)
		l.operator(&appsv1.Deployment{}, inNamespace("other", upToDate), off)
		for _, namespace := range []string{"default", "other"} {
			d := deployment()
			d.Namespace = namespace
			l.must(l.user.Create(l.ctx, d))
		}
		synctest.Wait()
		for i := range 12 {
			for _, namespace := range []string{"default", "other"} {
				d := deployment()
				d.Namespace = namespace
				l.merge(d, fmt.Sprintf(`{"spec":{"replicas":%d}}`, i+2))
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		l.expect(config.CheckTwoLeaders, "Deployment.apps default/web: status", "another process or client")
	})
}
