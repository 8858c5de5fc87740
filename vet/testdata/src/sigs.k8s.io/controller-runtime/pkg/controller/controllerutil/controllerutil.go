package controllerutil

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

type OperationResult string

func SetControllerReference(owner, controlled metav1.Object, scheme *runtime.Scheme) error {
	return nil
}

func SetOwnerReference(owner, object metav1.Object, scheme *runtime.Scheme) error { return nil }

func RemoveControllerReference(owner, object metav1.Object, scheme *runtime.Scheme) error { return nil }

func AddFinalizer(o client.Object, finalizer string) bool { return true }

func RemoveFinalizer(o client.Object, finalizer string) bool { return true }

func ContainsFinalizer(o client.Object, finalizer string) bool { return true }

func CreateOrUpdate(ctx context.Context, c client.Client, obj client.Object, f func() error) (OperationResult, error) {
	return "", f()
}
