package framework

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/controllers/internal/volume"
)

// Objects are the objects that matter for scheduling, besides nodes and pods. Objects that are stored must not be changed
// afterwards.
type Objects struct {
	namespaces  map[string]labels.Set
	services    map[string]map[string]labels.Set // the selectors, by namespace and name
	controllers map[controllerKey]labels.Selector
	claims      map[string]*corev1.PersistentVolumeClaim
	volumes     map[string]*corev1.PersistentVolume
	byClass     map[string]map[string]*corev1.PersistentVolume
	classes     map[string]*storagev1.StorageClass
	csiNodes    map[string]*storagev1.CSINode
	drivers     map[string]*storagev1.CSIDriver
	capacities  map[string]*storagev1.CSIStorageCapacity
	attachments map[string]*storagev1.VolumeAttachment
	budgets     map[string]*policyv1.PodDisruptionBudget
}

// controllerKey is the key of a controller of pods.
type controllerKey struct{ kind, namespace, name string }

func newObjects() *Objects {
	return &Objects{
		namespaces: map[string]labels.Set{}, services: map[string]map[string]labels.Set{}, controllers: map[controllerKey]labels.Selector{},
		claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		byClass: map[string]map[string]*corev1.PersistentVolume{}, classes: map[string]*storagev1.StorageClass{},
		csiNodes: map[string]*storagev1.CSINode{}, drivers: map[string]*storagev1.CSIDriver{}, capacities: map[string]*storagev1.CSIStorageCapacity{},
		attachments: map[string]*storagev1.VolumeAttachment{}, budgets: map[string]*policyv1.PodDisruptionBudget{},
	}
}

// Set stores an object. An object of a kind that does not matter is ignored.
func (o *Objects) Set(object runtime.Object) {
	switch x := object.(type) {
	case *corev1.Namespace:
		o.namespaces[x.Name] = x.Labels
	case *corev1.Service:
		if o.services[x.Namespace] == nil {
			o.services[x.Namespace] = map[string]labels.Set{}
		}
		o.services[x.Namespace][x.Name] = x.Spec.Selector
	case *corev1.ReplicationController:
		o.controllers[controllerKey{"ReplicationController", x.Namespace, x.Name}] = labels.SelectorFromSet(x.Spec.Selector)
	case *appsv1.ReplicaSet:
		o.setController(controllerKey{"ReplicaSet", x.Namespace, x.Name}, x.Spec.Selector)
	case *appsv1.StatefulSet:
		o.setController(controllerKey{"StatefulSet", x.Namespace, x.Name}, x.Spec.Selector)
	case *corev1.PersistentVolumeClaim:
		o.claims[claimKey(x.Namespace, x.Name)] = x
	case *corev1.PersistentVolume:
		o.removeVolume(x.Name)
		o.volumes[x.Name] = x
		class := volume.ClassOfVolume(x)
		if o.byClass[class] == nil {
			o.byClass[class] = map[string]*corev1.PersistentVolume{}
		}
		o.byClass[class][x.Name] = x
	case *storagev1.StorageClass:
		o.classes[x.Name] = x
	case *storagev1.CSINode:
		o.csiNodes[x.Name] = x
	case *storagev1.CSIDriver:
		o.drivers[x.Name] = x
	case *storagev1.CSIStorageCapacity:
		o.capacities[claimKey(x.Namespace, x.Name)] = x
	case *storagev1.VolumeAttachment:
		o.attachments[x.Name] = x
	case *policyv1.PodDisruptionBudget:
		o.budgets[claimKey(x.Namespace, x.Name)] = x
	}
}

func (o *Objects) setController(key controllerKey, s *metav1.LabelSelector) {
	if selector, err := metav1.LabelSelectorAsSelector(s); err == nil {
		o.controllers[key] = selector
	}
}

// Remove removes an object.
func (o *Objects) Remove(object runtime.Object) {
	switch x := object.(type) {
	case *corev1.Namespace:
		delete(o.namespaces, x.Name)
	case *corev1.Service:
		delete(o.services[x.Namespace], x.Name)
	case *corev1.ReplicationController:
		delete(o.controllers, controllerKey{"ReplicationController", x.Namespace, x.Name})
	case *appsv1.ReplicaSet:
		delete(o.controllers, controllerKey{"ReplicaSet", x.Namespace, x.Name})
	case *appsv1.StatefulSet:
		delete(o.controllers, controllerKey{"StatefulSet", x.Namespace, x.Name})
	case *corev1.PersistentVolumeClaim:
		delete(o.claims, claimKey(x.Namespace, x.Name))
	case *corev1.PersistentVolume:
		o.removeVolume(x.Name)
	case *storagev1.StorageClass:
		delete(o.classes, x.Name)
	case *storagev1.CSINode:
		delete(o.csiNodes, x.Name)
	case *storagev1.CSIDriver:
		delete(o.drivers, x.Name)
	case *storagev1.CSIStorageCapacity:
		delete(o.capacities, claimKey(x.Namespace, x.Name))
	case *storagev1.VolumeAttachment:
		delete(o.attachments, x.Name)
	case *policyv1.PodDisruptionBudget:
		delete(o.budgets, claimKey(x.Namespace, x.Name))
	}
}

func (o *Objects) removeVolume(name string) {
	if v := o.volumes[name]; v != nil {
		delete(o.byClass[volume.ClassOfVolume(v)], name)
		delete(o.volumes, name)
	}
}

// spreadSelector returns the selector of the pods that a pod without constraints of its own is spread with: the pods that its
// services and its controller select.
//
//upstream:pkg/scheduler/framework/plugins/helper.DefaultSelector
//upstream:pkg/scheduler/framework/plugins/helper.GetPodServices
func (o *Objects) spreadSelector(pod *corev1.Pod) labels.Selector {
	set := labels.Set{}
	for _, s := range o.services[pod.Namespace] {
		if s != nil && labels.SelectorFromSet(s).Matches(labels.Set(pod.Labels)) {
			set = labels.Merge(set, s)
		}
	}
	selector := set.AsSelector()
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return selector
	}
	group := map[string]string{"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}[owner.Kind]
	own := o.controllers[controllerKey{owner.Kind, pod.Namespace, owner.Name}]
	if own == nil || owner.APIVersion != group {
		return selector
	}
	if requirements, selectable := own.Requirements(); selectable {
		selector = selector.Add(requirements...)
	}
	return selector
}
