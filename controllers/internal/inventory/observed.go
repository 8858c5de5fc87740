package inventory

import (
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
)

// shared are the kinds that other controllers watch as whole objects. An informer of the metadata would watch, decode and
// store each object once more.
var shared = map[schema.GroupVersionKind]client.Object{
	appsv1.SchemeGroupVersion.WithKind("Deployment"):                        &appsv1.Deployment{},
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):                        &appsv1.ReplicaSet{},
	certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"): &certificatesv1.CertificateSigningRequest{},
	corev1.SchemeGroupVersion.WithKind("Endpoints"):                         &corev1.Endpoints{}, //lint:ignore SA1019 other controllers watch it
	corev1.SchemeGroupVersion.WithKind("Namespace"):                         &corev1.Namespace{},
	corev1.SchemeGroupVersion.WithKind("Node"):                              &corev1.Node{},
	corev1.SchemeGroupVersion.WithKind("PersistentVolume"):                  &corev1.PersistentVolume{},
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):             &corev1.PersistentVolumeClaim{},
	corev1.SchemeGroupVersion.WithKind("Pod"):                               &corev1.Pod{},
	corev1.SchemeGroupVersion.WithKind("ResourceQuota"):                     &corev1.ResourceQuota{},
	corev1.SchemeGroupVersion.WithKind("Service"):                           &corev1.Service{},
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"):                    &corev1.ServiceAccount{},
	discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):                &discoveryv1.EndpointSlice{},
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):             &policyv1.PodDisruptionBudget{},
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"):                       &rbacv1.ClusterRole{},
}

// observedObject returns an object for the informer of a monitor: a whole one if the informer is
// shared with other controllers, or else one of the metadata.
func observedObject(kind schema.GroupVersionKind, scheme *runtime.Scheme) (_ client.Object, isShared bool) {
	if obj, ok := shared[kind]; ok && scheme.Recognizes(kind) {
		return obj, true
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj, false
}

// metadataOf returns the metadata of an object of an informer, or false if it has none. The result shares memory with the
// object.
func metadataOf(kind schema.GroupVersionKind, obj any) (*metav1.PartialObjectMetadata, bool) {
	switch o := obj.(type) {
	case *metav1.PartialObjectMetadata:
		return o, true
	case metav1.ObjectMetaAccessor:
		m, ok := o.GetObjectMeta().(*metav1.ObjectMeta)
		if !ok {
			return nil, false
		}
		partial := &metav1.PartialObjectMetadata{ObjectMeta: *m}
		partial.SetGroupVersionKind(kind)
		return partial, true
	}
	return nil, false
}
