// Package catalog has a cache in memory, which a runnable fills when the program starts.
package catalog

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Catalog knows the images of pods.
type Catalog struct {
	mu     sync.RWMutex
	images map[types.NamespacedName]string
}

func (c *Catalog) Set(key types.NamespacedName, image string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.images == nil {
		c.images = map[types.NamespacedName]string{}
	}
	c.images[key] = image
}

func (c *Catalog) Forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.images, key)
}

type Reconciler struct {
	client.Client
	Catalog *Catalog
	seen    sync.Map
	count   atomic.Int64
}

// Start fills the catalog.
func (r *Reconciler) Start(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		r.Catalog.Set(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.Spec.Image)
	}
	return nil
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := r.Get(ctx, req.NamespacedName, pod)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	r.count.Add(1)
	r.seen.Store(req.NamespacedName, pod.Spec.Image)
	if err != nil || pod.DeletionTimestamp != nil {
		r.Catalog.Forget(req.NamespacedName)
		r.seen.Delete(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	r.Catalog.Set(req.NamespacedName, pod.Spec.Image)
	return ctrl.Result{}, nil
}

func SetUp(mgr ctrl.Manager) error {
	r := &Reconciler{Client: mgr.GetClient(), Catalog: &Catalog{}}
	if err := mgr.Add(r); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Complete(r)
}
