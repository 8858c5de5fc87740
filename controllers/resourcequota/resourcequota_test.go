package resourcequota_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// quotaOf creates a quota and waits until its usage is known.
func quotaOf(e controllerstest.Env, name string, scopes []corev1.ResourceQuotaScope, pairs ...string) {
	e.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}, Scopes: scopes}}
	for i := 0; i < len(pairs); i += 2 {
		q.Spec.Hard[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	e.Must(e.Create(e.Context(), q))
	e.WaitIdle()
}

// usedOf returns the used amount of a resource in a quota.
func usedOf(e controllerstest.Env, name, of string) string {
	e.Helper()
	q := &corev1.ResourceQuota{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: controllerstest.Web.Namespace, Name: name}, q))
	quantity := q.Status.Used[corev1.ResourceName(of)]
	return quantity.String()
}

func quotaPod(name, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: name}, Spec: controllerstest.Template("nginx:1").Spec}
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	return p
}

func refusedBy(t *testing.T, err error, want string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want 403 with %q", err, want)
	}
}

func TestResourceQuotas(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ctx := e.Context()
		e.Must(e.Create(ctx, quotaPod("before", "100m")))
		quotaOf(e, "compute", nil, "pods", "2", "requests.cpu", "1", "count/deployments.apps", "1")
		if got := usedOf(e, "compute", "requests.cpu"); got != "100m" {
			t.Errorf("the CPU of what exists: %s", got)
		}
		refusedBy(t, e.Create(ctx, quotaPod("none", "")), `pods "none" is forbidden: failed quota: compute: must specify requests.cpu for: web`)
		refusedBy(t, e.Create(ctx, quotaPod("big", "2")), `pods "big" is forbidden: exceeded quota: compute, requested: requests.cpu=2, used: requests.cpu=100m, limited: requests.cpu=1`)
		e.Must(e.Create(ctx, quotaPod("a", "200m"), client.DryRunAll))
		e.Must(e.Create(ctx, quotaPod("a", "200m")))
		if got := usedOf(e, "compute", "pods"); got != "2" { // at once
			t.Errorf("pods: %s", got)
		}
		refusedBy(t, e.Create(ctx, quotaPod("b", "100m")), `exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=2`)
		e.Must(e.Delete(ctx, quotaPod("a", ""), client.GracePeriodSeconds(0)))
		e.WaitIdle()
		if got := usedOf(e, "compute", "requests.cpu"); got != "100m" {
			t.Errorf("the CPU after a deletion: %s", got)
		}
		e.Must(e.Create(ctx, quotaPod("b", "100m")))
		e.Must(e.Create(ctx, controllerstest.Deployment(0, "nginx:1")))
		second := controllerstest.Deployment(0, "nginx:1")
		second.Name = "second"
		refusedBy(t, e.Create(ctx, second), `exceeded quota: compute, requested: count/deployments.apps=1, used: count/deployments.apps=1, limited: count/deployments.apps=1`)
		e.Must(e.Delete(ctx, controllerstest.Deployment(0, "")))
		e.WaitIdle()
		e.Must(e.Create(ctx, second))
	})
}

// TestResourceQuotaIsStale deletes a pod before the cache has the usage that admission has charged for it.
func TestResourceQuotaIsStale(t *testing.T) {
	var stale atomic.Pointer[corev1.ResourceQuota]
	controllerstest.WithController(t, "resourcequota-controller", func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			if q, ok := obj.(*corev1.ResourceQuota); ok && stale.Load() != nil {
				stale.Load().DeepCopyInto(q)
				return nil
			}
			return c.Get(ctx, key, obj, o...)
		}}
	}, func(e controllerstest.Env) {
		quotaOf(e, "compute", nil, "pods", "1")
		q := &corev1.ResourceQuota{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: controllerstest.Web.Namespace, Name: "compute"}, q))
		stale.Store(q)
		e.Must(e.Create(e.Context(), quotaPod("a", "")))
		e.Must(e.Delete(e.Context(), quotaPod("a", ""), client.GracePeriodSeconds(0)))
		e.WaitIdle()
		if got := usedOf(e, "compute", "pods"); got != "0" {
			t.Errorf("the pods after the deletion: %s", got)
		}
	})
}

// TestResourceQuotaScopes has a quota for pods without requests, and one of services and claims.
func TestResourceQuotaScopes(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ctx := e.Context()
		quotaOf(e, "best-effort", []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}, "pods", "1")
		quotaOf(e, "objects", nil, "services.nodeports", "1", "requests.storage", "1Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "0")
		e.Must(e.Create(ctx, quotaPod("requests", "100m")))
		e.Must(e.Create(ctx, quotaPod("first", "")))
		refusedBy(t, e.Create(ctx, quotaPod("second", "")), `exceeded quota: best-effort, requested: pods=1, used: pods=1, limited: pods=1`)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "s"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}},
		}}
		refusedBy(t, e.Create(ctx, service), `exceeded quota: objects, requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1`)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("600Mi")}},
		}}
		e.Must(e.Create(ctx, claim.DeepCopy()))
		claim.Name = "d"
		refusedBy(t, e.Create(ctx, claim.DeepCopy()), `exceeded quota: objects, requested: requests.storage=600Mi, used: requests.storage=600Mi, limited: requests.storage=1Gi`)
		claim.Spec.Resources.Requests["storage"], claim.Spec.StorageClassName = resource.MustParse("1Mi"), new("gold")
		refusedBy(t, e.Create(ctx, claim.DeepCopy()), `requested: gold.storageclass.storage.k8s.io/persistentvolumeclaims=1`)
	})
}

// TestResourceQuotaOfUnservedKind: the usage lacks a kind until the server serves it, and what quotas ignore.
func TestResourceQuotaOfUnservedKind(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		hasUsage := func(of corev1.ResourceName) bool {
			q := &corev1.ResourceQuota{}
			e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: controllerstest.Web.Namespace, Name: "widgets"}, q))
			_, has := q.Status.Used[of]
			return has
		}
		const widgets = "count/widgets.example.com"
		quotaOf(e, "widgets", nil, widgets, "1", "count/events", "1", "configmaps", "5")
		if hasUsage(widgets) || hasUsage("count/events") || !hasUsage("configmaps") {
			t.Error("a kind that is not served has a usage, or ConfigMaps have none")
		}
		e.DefineWidgets("v1")
		e.WaitIdle()
		if !hasUsage(widgets) {
			t.Error("the usage lacks a kind that is served")
		}
		e.Must(e.Create(e.Context(), controllerstest.Widget("a")))
		refusedBy(t, e.Create(e.Context(), controllerstest.Widget("b")), "exceeded quota: widgets")
	})
}

// TestResourceQuotaConcurrently creates more objects at once than a quota allows.
func TestResourceQuotaConcurrently(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		quotaOf(e, "maps", nil, "configmaps", "11") // one of them is kube-root-ca.crt
		errs := make([]error, 50)
		var writers sync.WaitGroup
		for i := range errs {
			writers.Go(func() { errs[i] = e.Create(e.Context(), controllerstest.ConfigMap(fmt.Sprintf("cm-%d", i))) })
		}
		writers.Wait()
		created := 0
		for _, err := range errs {
			if err == nil {
				created++
				continue
			}
			refusedBy(t, err, "exceeded quota: maps, requested: configmaps=1, used: configmaps=11, limited: configmaps=11")
		}
		if created != 10 {
			t.Errorf("created %d", created)
		}
	})
}

// lateWrites is a storage that creates a ConfigMap only after the usage of a quota was written.
type lateWrites struct {
	storage.Store
	counted chan struct{}
	once    *sync.Once
}

func (s lateWrites) Put(ctx context.Context, w storage.Write) (*storage.Record, error) {
	if strings.HasSuffix(w.Key, "/configmaps/default/late") {
		<-s.counted
	}
	record, err := s.Store.Put(ctx, w)
	if err == nil && strings.Contains(w.Key, "/resourcequotas/") && record.Created != record.Revision {
		s.once.Do(func() { close(s.counted) })
	}
	return record, err
}

// TestResourceQuotaCountsRequestsInFlight creates a quota while an object is on its way to the
// storage that was admitted before.
func TestResourceQuotaCountsRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lateWrites{memory.New(memory.Options{}), make(chan struct{}), &sync.Once{}}
		controllerstest.WithPlane(t, controlplane.Options{Storage: s}, func(e controllerstest.Env) {
			created := make(chan error, 1)
			go func() { created <- e.Create(e.Context(), controllerstest.ConfigMap("late")) }()
			synctest.Wait()
			quotaOf(e, "maps", nil, "configmaps", "2")
			e.Must(<-created)
			if got := usedOf(e, "maps", "configmaps"); got != "2" {
				t.Errorf("%s ConfigMaps are counted, of which there are 2", got)
			}
		})
	})
}
