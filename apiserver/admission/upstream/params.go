package upstream

import (
	"context"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/cache"

	"flyball.dev/apiserver/admission/stored"
)

// params is an informer and a lister of the parameters of policies: the objects of one resource, read
// from the store.
type params struct {
	objects   stored.Objects
	resource  schema.GroupVersionResource
	namespace string // empty for all
}

func (p params) Informer() cache.SharedIndexInformer { return syncedInformer{} }
func (p params) Lister() cache.GenericLister         { return p }

// ByNamespace implements [cache.GenericLister].
func (p params) ByNamespace(namespace string) cache.GenericNamespaceLister {
	p.namespace = namespace
	return p
}

func (p params) scope(verb string) context.Context {
	info := &request.RequestInfo{IsResourceRequest: true, Verb: verb, APIGroup: p.resource.Group, APIVersion: p.resource.Version, Resource: p.resource.Resource}
	return request.WithNamespace(request.WithRequestInfo(context.Background(), info), p.namespace)
}

// Get implements [cache.GenericNamespaceLister].
func (p params) Get(name string) (runtime.Object, error) {
	storage, ok := p.objects.Storage(p.resource).(rest.Getter)
	if !ok {
		return nil, errors.NewNotFound(p.resource.GroupResource(), name)
	}
	obj, err := storage.Get(p.scope("get"), name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return withoutKind(obj), nil
}

// List implements [cache.GenericNamespaceLister].
func (p params) List(selector labels.Selector) ([]runtime.Object, error) {
	storage, ok := p.objects.Storage(p.resource).(rest.Lister)
	if !ok {
		return nil, nil
	}
	list, err := storage.List(p.scope("list"), &internalversion.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	var objects []runtime.Object
	return objects, meta.EachListItem(list, func(obj runtime.Object) error {
		objects = append(objects, withoutKind(obj))
		return nil
	})
}

// withoutKind returns a typed object without its kind, since the objects of informers have none.
func withoutKind(obj runtime.Object) runtime.Object {
	if _, ok := obj.(*unstructured.Unstructured); ok || obj.GetObjectKind().GroupVersionKind().Empty() {
		return obj
	}
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return obj
}
