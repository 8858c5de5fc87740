package volumeprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// AddClassesToManager adds the controller of VolumeAttributesClasses.
//
//upstream:pkg/controller/volume/vacprotection.NewVACProtectionController
func AddClassesToManager(mgr manager.Manager) error {
	released := builder.WithPredicates(predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }})
	return builder.ControllerManagedBy(mgr).
		Named("volumeattributesclass-protection").
		For(&storagev1.VolumeAttributesClass{}, ifDeleting).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(classesOf), released).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(classesOf), released).
		Complete(newReconciler(mgr, classFinalizer, classInUse))
}

// classesOf returns the VolumeAttributesClasses that a volume or a claim has, had, or is to get.
//
//upstream:pkg/controller/volume/vacprotection.Controller.pvcDeleted
//upstream:pkg/controller/volume/vacprotection.Controller.pvDeleted
func classesOf(_ context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range classNames(obj) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return requests
}

//upstream:pkg/controller/volume/vacprotection.getPVCReferencedVACNames
//upstream:pkg/controller/volume/vacprotection.getPVReferencedVACNames
func classNames(obj client.Object) []string {
	var fields []*string
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		fields = append(fields, o.Spec.VolumeAttributesClassName)
	case *corev1.PersistentVolumeClaim:
		fields = append(fields, o.Spec.VolumeAttributesClassName, o.Status.CurrentVolumeAttributesClassName)
		if s := o.Status.ModifyVolumeStatus; s != nil {
			fields = append(fields, &s.TargetVolumeAttributesClassName)
		}
	}
	var names []string
	for _, name := range fields {
		if name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	return names
}

// classInUse reports whether a volume or a claim refers to a VolumeAttributesClass.
//
//upstream:pkg/controller/volume/vacprotection.Controller.isBeingUsed
func classInUse(ctx context.Context, reader client.Reader, class *storagev1.VolumeAttributesClass) (bool, error) {
	claims, volumes := &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}
	if err := reader.List(ctx, claims); err != nil {
		return false, err
	}
	for i := range claims.Items {
		if slices.Contains(classNames(&claims.Items[i]), class.Name) {
			return true, nil
		}
	}
	if err := reader.List(ctx, volumes); err != nil {
		return false, err
	}
	for i := range volumes.Items {
		if slices.Contains(classNames(&volumes.Items[i]), class.Name) {
			return true, nil
		}
	}
	return false, nil
}
