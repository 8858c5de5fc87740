// Package platform has what the operators of these tests have in other packages than their own.
package platform

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kube creates objects of the cluster.
type Kube struct{}

func NewKube() *Kube { return &Kube{} }

func (k *Kube) CreateSecret(ctx context.Context, name string) error { return nil }

// Children creates objects of the cluster.
type Children interface {
	EnsureWorkload(ctx context.Context, app *api.App) error
	EnsureWatch(ctx context.Context, name string) error
}

// Cloud creates things that nothing but the operator deletes.
type Cloud interface {
	EnsureNetwork(ctx context.Context, name string) error
}

// Pods is a lister.
type Pods interface {
	List(name string) ([]*corev1.Pod, error)
}

func Teardown(ctx context.Context, app *api.App) error { return nil }

func IgnoreExisting(err error) error { return err }

func IgnoreAlreadyExistsError(err error) error { return err }

func Wrap(err error) error { return err }

func CreateOrUpdate(ctx context.Context, c client.Client, object client.Object, mutate func() error) error {
	return nil
}

func Adopt(object client.Object) {}
