package fake

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
)

// serverClient is a client of an API server that has indexes as a cache has.
type serverClient struct {
	client.WithWatch
	indexes *indexes
}

func (c *serverClient) indexer() *indexes { return c.indexes }

// List implements [client.Reader]. Field selectors for which there are indexes are evaluated here.
func (c *serverClient) List(
	ctx context.Context, list client.ObjectList, opts ...client.ListOption,
) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	gvk, err := c.GroupVersionKindFor(list)
	if err != nil || !c.indexes.covers(itemKind(gvk), o.FieldSelector) {
		return c.WithWatch.List(ctx, list, opts...)
	}
	matches, err := c.indexes.selector(itemKind(gvk), o.FieldSelector, nil)
	if err != nil {
		return err
	}
	o.FieldSelector = nil
	if err := c.WithWatch.List(ctx, list, o); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	return meta.SetList(list, slices.DeleteFunc(items, func(item runtime.Object) bool {
		obj, ok := item.(client.Object)
		return !ok || !matches(obj)
	}))
}

// serverClient creates the initial objects on the server and returns a client of it.
func (b *ClientBuilder) serverClient() (client.WithWatch, error) {
	seed := &seed{ctx: context.Background(), builder: b}
	if err := seed.run(b.server); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(b.server, client.Options{Scheme: b.scheme, Mapper: b.mapper})
	if err != nil {
		return nil, err
	}
	return &serverClient{WithWatch: c, indexes: &b.indexes}, nil
}

// seed creates the initial objects of a server.
type seed struct {
	ctx     context.Context
	builder *ClientBuilder
	client  client.Client
}

// run creates definitions, those that the scheme needs, and namespaces before everything else.
func (s *seed) run(config *rest.Config) (err error) {
	if s.client, err = client.New(config, client.Options{Scheme: s.builder.scheme}); err != nil {
		return err
	}
	objects, err := flatten(s.builder.objects)
	if err != nil {
		return err
	}
	slices.SortStableFunc(objects, func(a, b client.Object) int { return cmp.Compare(s.rank(a), s.rank(b)) })
	defined := false
	var deleted []client.Object
	for _, obj := range objects {
		if !defined && s.rank(obj) > rankDefinition {
			if err := s.defineKinds(); err != nil {
				return err
			}
			defined = true
		}
		deleting := obj.GetDeletionTimestamp() != nil
		if err := s.create(obj); err != nil {
			return fmt.Errorf("failed to add %T %s to the server: %w", obj, client.ObjectKeyFromObject(obj), err)
		}
		if deleting {
			deleted = append(deleted, obj)
		}
	}
	if !defined {
		if err := s.defineKinds(); err != nil {
			return err
		}
	}
	return s.delete(deleted)
}

// delete begins the deletion of objects, and sets them to the results. Nothing can be created after
// that in a namespace, nor of a kind, which is being deleted.
func (s *seed) delete(objects []client.Object) error {
	for _, obj := range objects {
		key := client.ObjectKeyFromObject(obj)
		err := s.client.Delete(s.ctx, obj)
		if err == nil {
			err = s.client.Get(s.ctx, key, obj)
		}
		if err != nil {
			return fmt.Errorf("failed to delete %T %s on the server: %w", obj, key, err)
		}
	}
	return nil
}

// flatten returns objects and the items of lists.
func flatten(all []runtime.Object) (objects []client.Object, err error) {
	for _, obj := range all {
		items := []runtime.Object{obj}
		if meta.IsListType(obj) {
			if items, err = meta.ExtractList(obj); err != nil {
				return nil, err
			}
		}
		for _, item := range items {
			o, ok := item.(client.Object)
			if !ok {
				return nil, fmt.Errorf("%T is no object with metadata", item)
			}
			objects = append(objects, o)
		}
	}
	return objects, nil
}

const (
	rankDefinition = iota
	rankNamespace
	rankOther
)

// rank returns when an object has to be created.
func (s *seed) rank(obj client.Object) int {
	gvk, _ := s.client.GroupVersionKindFor(obj) // the creation has the same error
	switch gvk.GroupKind() {
	case schema.GroupKind{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"}:
		return rankDefinition
	case schema.GroupKind{Kind: "Namespace"}:
		return rankNamespace
	}
	return rankOther
}

// create creates an object with its status, and sets it to the result.
func (s *seed) create(obj client.Object) error {
	whole := obj.DeepCopyObject().(client.Object)
	obj.SetResourceVersion("")
	if ns := obj.GetNamespace(); ns != "" {
		namespace := &unstructured.Unstructured{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		namespace.SetName(ns)
		if err := client.IgnoreAlreadyExists(s.client.Create(s.ctx, namespace)); err != nil {
			return err
		}
	}
	err := s.client.Create(s.ctx, obj)
	if s.rank(obj) == rankNamespace && apierrors.IsAlreadyExists(err) { // as "default" does
		err = s.adopt(obj)
	}
	if err != nil {
		return err
	}
	return s.setStatus(obj, whole)
}

// adopt gives a namespace that exists the metadata that it is to have, besides what it has.
func (s *seed) adopt(namespace client.Object) error {
	wanted := copyOf(namespace)
	if err := s.client.Get(s.ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
		return err
	}
	namespace.SetLabels(labels.Merge(namespace.GetLabels(), wanted.GetLabels()))
	namespace.SetAnnotations(labels.Merge(namespace.GetAnnotations(), wanted.GetAnnotations()))
	finalizers := sets.New(namespace.GetFinalizers()...).Insert(wanted.GetFinalizers()...)
	namespace.SetFinalizers(sets.List(finalizers))
	return s.client.Update(s.ctx, namespace)
}

// setStatus sets the status that an object is to have, if the creation did not.
func (s *seed) setStatus(obj, whole client.Object) error {
	wanted, err := content(whole)
	if err != nil {
		return err
	}
	have, err := content(obj)
	if err != nil {
		return err
	}
	if s.rank(obj) == rankDefinition || isEmpty(wanted["status"]) ||
		reflect.DeepEqual(wanted["status"], have["status"]) {
		return nil
	}
	next := copyOf(obj)
	if err := copyStatus(whole, next); err != nil {
		return err
	}
	err = s.client.Status().Update(s.ctx, next)
	if apierrors.IsNotFound(err) {
		return nil // no subresource: the creation has set it
	}
	if err == nil {
		err = convert(next, obj)
	}
	return err
}

// isEmpty reports whether a value in JSON has nothing in it.
func isEmpty(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return v == nil
	}
	for _, part := range m {
		if !isEmpty(part) {
			return false
		}
	}
	return true
}

// defineKinds creates definitions of the kinds in the scheme that the server does not have.
func (s *seed) defineKinds() error {
	status, err := s.builder.statusKinds()
	if err != nil {
		return err
	}
	mapper := s.client.RESTMapper()
	meta.MaybeResetRESTMapper(mapper) // of the definitions among the initial objects
	byGroupKind := map[schema.GroupKind][]schema.GroupVersionKind{}
	for gvk := range s.builder.scheme.AllKnownTypes() {
		if !s.definable(gvk) {
			continue
		}
		if _, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
			byGroupKind[gvk.GroupKind()] = append(byGroupKind[gvk.GroupKind()], gvk)
		} else if err != nil {
			return err
		}
	}
	for kind, versions := range byGroupKind {
		if _, err := mapper.RESTMapping(kind); err == nil {
			continue // another version is served, as the definition has it
		}
		definition := s.definition(kind, versions, status.Has)
		u := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err := convert(definition, u); err != nil {
			return err
		}
		if err := s.client.Create(s.ctx, u); err != nil {
			return fmt.Errorf("failed to define the kind %s: %w", kind, err)
		}
	}
	meta.MaybeResetRESTMapper(mapper)
	return nil
}

// definable reports whether a kind can have a definition: custom kinds can if their group has a dot.
func (s *seed) definable(gvk schema.GroupVersionKind) bool {
	if gvk.Version == runtime.APIVersionInternal || builtinScheme().Recognizes(gvk) ||
		!strings.Contains(gvk.Group, ".") {
		return false
	}
	obj, err := s.builder.scheme.New(gvk)
	_, ok := obj.(client.Object)
	return err == nil && ok
}

// definition returns a definition that allows all fields.
func (s *seed) definition(kind schema.GroupKind, versions []schema.GroupVersionKind,
	hasStatus func(schema.GroupVersionKind) bool) *apiextensionsv1.CustomResourceDefinition {
	slices.SortFunc(versions, func(a, b schema.GroupVersionKind) int {
		return version.CompareKubeAwareVersionStrings(a.Version, b.Version)
	})
	plural := resource(versions[0]).Resource
	d := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: plural + "." + kind.Group,
			// Groups of Kubernetes' own need it.
			Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, for a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind.Kind},
			Scope: apiextensionsv1.NamespaceScoped,
		},
	}
	if mapper := s.builder.mapper; mapper != nil {
		if namespaced, err := apiutil.IsGVKNamespaced(versions[0], mapper); err == nil && !namespaced {
			d.Spec.Scope = apiextensionsv1.ClusterScoped
		}
	}
	allow := true
	for i, gvk := range versions {
		v := apiextensionsv1.CustomResourceDefinitionVersion{
			Name: gvk.Version, Served: true, Storage: i == len(versions)-1,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: &allow,
			}},
		}
		if hasStatus(gvk) {
			v.Subresources = &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
			}
		}
		d.Spec.Versions = append(d.Spec.Versions, v)
	}
	return d
}
