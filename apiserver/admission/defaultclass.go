package admission

import (
	"cmp"
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
)

// class is an object with a default class annotation, such as a StorageClass.
type class interface {
	runtime.Object
	metav1.Object
}

// defaultClass sets the class of new objects without one to the default class, which is marked by an annotation. If
// there are several default classes, it uses the newest.
type defaultClass[T class] struct {
	*admission.Handler
	classes     *stored.Reader[T]
	annotations []string
	// field returns the field with the class name. It returns nil if the request is for another kind or the object
	// already names a class.
	field func(admission.Attributes) **string
}

//upstream:plugin/pkg/admission/storage/storageclass/setdefault.claimDefaulterPlugin
func newDefaultStorageClass(e Environment) admission.Interface {
	return &defaultClass[*storagev1.StorageClass]{
		Handler:     admission.NewHandler(admission.Create),
		classes:     stored.NewReader[*storagev1.StorageClass](e, storagev1.SchemeGroupVersion.WithResource("storageclasses")),
		annotations: []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"},
		field: func(a admission.Attributes) **string {
			claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
			if !ok || claim.Spec.StorageClassName != nil {
				return nil
			}
			if _, named := claim.Annotations[corev1.BetaStorageClassAnnotation]; named {
				return nil
			}
			return &claim.Spec.StorageClassName
		},
	}
}

//upstream:plugin/pkg/admission/network/defaultingressclass.classDefaulterPlugin
func newDefaultIngressClass(e Environment) admission.Interface {
	return &defaultClass[*networkingv1.IngressClass]{
		Handler:     admission.NewHandler(admission.Create),
		classes:     stored.NewReader[*networkingv1.IngressClass](e, networkingv1.SchemeGroupVersion.WithResource("ingressclasses")),
		annotations: []string{networkingv1.AnnotationIsDefaultIngressClass},
		field: func(a admission.Attributes) **string {
			ingress, ok := a.GetObject().(*networkingv1.Ingress)
			if !ok || ingress.Spec.IngressClassName != nil {
				return nil
			}
			if _, named := ingress.Annotations["kubernetes.io/ingress.class"]; named {
				return nil
			}
			return &ingress.Spec.IngressClassName
		},
	}
}

// Admit implements [admission.MutationInterface].
func (d *defaultClass[T]) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	field := d.field(a)
	if field == nil {
		return nil
	}
	var newest T
	found := false
	err := d.classes.Each(ctx, "", func(c T) {
		if d.isDefault(c) && (!found || newer(c, newest)) {
			newest, found = c, true
		}
	})
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if found {
		*field = new(newest.GetName())
	}
	return nil
}

func (d *defaultClass[T]) isDefault(c T) bool {
	for _, annotation := range d.annotations {
		if c.GetAnnotations()[annotation] == "true" {
			return true
		}
	}
	return false
}

// newer orders classes by creation time, newest first, and classes of the same second by name.
//
//upstream:pkg/volume/util.GetDefaultClass
//upstream:plugin/pkg/admission/network/defaultingressclass.getDefaultClass
func newer(a, b class) bool {
	return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), strings.Compare(a.GetName(), b.GetName())) < 0
}
