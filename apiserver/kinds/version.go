package kinds

import (
	"context"
	"maps"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
)

// version is a version of a kind. It makes the resource of the version.
type version struct {
	installer      *installer
	kind           *kind
	served, stored schema.GroupVersionKind
	store          *registry.Store
	strategy       *strategy
	resource       *resource.Resource
}

// resource returns the resource of the kind in one of its versions.
func (k *kind) resource(i *installer, served, stored schema.GroupVersionKind, store *registry.Store,
	s *strategy) (*resource.Resource, error) {
	r := &resource.Resource{
		GroupVersion:       served.GroupVersion(),
		Kind:               served,
		ListKind:           served.Kind + "List",
		Name:               k.Plural,
		Singular:           k.singular(served.Kind),
		ShortNames:         k.ShortNames,
		Categories:         k.Categories,
		Namespaced:         !k.Cluster,
		StorageVersionHash: discovery.StorageVersionHash(stored.Group, stored.Version, stored.Kind),
		Storage:            store,
		PatchTypes:         patchTypes,
		Warning:            i.deprecated(served),
		TypeConverter:      i.TypeConverter,
	}
	v := &version{installer: i, kind: k, served: served, stored: stored, store: store, strategy: s, resource: r}
	r.ManagedFields = v.managedFields(s.reset)
	if k.BeforeDelete != nil {
		r.Storage = deleting{store, k.BeforeDelete}
	}
	if k.Terminate != nil {
		r.Storage = terminating{store, k.Terminate}
		r.Verbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	if guard := i.Guards[r.GroupVersionResource().GroupResource()]; guard != nil {
		r.Storage = guarded{store, guard}
	}
	var err error
	if r.Scope, err = i.scope(r.GroupVersionResource(), "", served, stored.GroupVersion(), r.Namespaced, store,
		fieldpath.NewExcludeFilterSetMap(s.reset)); err != nil {
		return nil, err
	}
	for _, add := range []func() error{v.addStatus, v.addParts, v.addScale, v.addMore} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// managedFields returns what sets the managed fields of simple writes, with the fields that these reset. For a version that is not
// the stored one, only creations are simple.
func (v *version) managedFields(reset map[fieldpath.APIVersion]*fieldpath.Set) managedfields.Updater {
	apiVersion := v.served.GroupVersion().String()
	fields := reset[fieldpath.APIVersion(apiVersion)]
	if v.served == v.stored {
		return managedfields.ForType(reflect.TypeOf(v.kind.Type).Elem(), apiVersion, fields)
	}
	served, err := v.installer.Scheme.New(v.served)
	if err != nil {
		return nil
	}
	convert := convertor(v.installer.Scheme, v.stored.GroupVersion(), v.served.GroupVersion())
	return convertingUpdater{managedfields.ForType(reflect.TypeOf(served).Elem(), apiVersion, fields), func(stored metav1.Object) (metav1.Object, error) {
		obj, err := convert.ConvertToVersion(stored.(runtime.Object), v.served.GroupVersion())
		if err != nil {
			return nil, err
		}
		return obj.(metav1.Object), nil
	}}
}

// convertingUpdater sets the managed fields of objects that are created in another version than the stored one. It leaves all other
// writes to the field manager.
type convertingUpdater struct {
	served  managedfields.Updater // of the version of the request
	convert func(stored metav1.Object) (metav1.Object, error)
}

// Update implements [managedfields.Updater].
func (u convertingUpdater) Update(old, obj metav1.Object, w managedfields.Write) bool {
	if old != nil {
		return false
	}
	served, err := u.convert(obj)
	if err != nil || !u.served.Update(nil, served, w) {
		return false
	}
	obj.SetManagedFields(served.GetManagedFields())
	return true
}

// Apply implements [managedfields.Updater].
func (convertingUpdater) Apply(context.Context, metav1.Object, map[string]any, managedfields.Write, bool) (metav1.Object, bool) {
	return nil, false
}

// add adds a subresource.
func (v *version) add(name string, kind schema.GroupVersionKind, hub schema.GroupVersion, storage rest.Storage,
	filters map[fieldpath.APIVersion]fieldpath.Filter) (*resource.Resource, error) {
	r := v.resource
	scope, err := v.installer.scope(r.GroupVersionResource(), name, kind, hub, r.Namespaced, storage, filters)
	if err != nil {
		return nil, err
	}
	child := &resource.Resource{GroupVersion: r.GroupVersion, Kind: kind, Name: name, Namespaced: r.Namespaced,
		Storage: storage, PatchTypes: patchTypes, Scope: scope}
	r.Subresources = append(r.Subresources, child)
	return child, nil
}

// addStatus adds the subresource status, if the kind has one.
func (v *version) addStatus() error {
	if !v.kind.Status {
		return nil
	}
	status := statusStrategy{v.strategy}
	child, err := v.add("status", v.served, v.stored.GroupVersion(), resource.NewStatus(v.store, status),
		fieldpath.NewExcludeFilterSetMap(status.GetResetFields()))
	if err != nil {
		return err
	}
	child.ManagedFields = v.managedFields(status.GetResetFields())
	return nil
}

// addParts adds the subresources that update a part of the object.
func (v *version) addParts() error {
	for name, part := range v.kind.Parts {
		var filters map[fieldpath.APIVersion]fieldpath.Filter
		if part.Filter != nil {
			filters = map[fieldpath.APIVersion]fieldpath.Filter{
				fieldpath.APIVersion(v.served.GroupVersion().String()): part.Filter}
		}
		storage := resource.NewStatus(v.store, partStrategy{v.strategy, part})
		if _, err := v.add(name, v.served, v.stored.GroupVersion(), storage, filters); err != nil {
			return err
		}
	}
	return nil
}

// addScale adds the subresource scale, if the kind has one.
func (v *version) addScale() error {
	if v.kind.Scale == nil {
		return nil
	}
	storage := &scaleREST{store: v.store, scale: v.kind.Scale, kind: v.stored,
		resource: v.resource.GroupVersionResource().GroupResource()}
	_, err := v.add("scale", scaleKind, scaleKind.GroupVersion(), storage, nil)
	return err
}

// addMore adds the subresources with storages of their own.
func (v *version) addMore() error {
	more := map[string]rest.Storage{}
	maps.Copy(more, v.installer.More[v.resource.GroupVersionResource().GroupResource()])
	if v.kind.More != nil {
		maps.Copy(more, v.kind.More(newStored(v.store, v.strategy)))
	}
	for name, storage := range more {
		kind, err := v.installer.subresourceKind(storage, v.served.GroupVersion())
		if err != nil {
			return err
		}
		var filters map[fieldpath.APIVersion]fieldpath.Filter
		if s, ok := storage.(rest.ResetFieldsStrategy); ok {
			filters = fieldpath.NewExcludeFilterSetMap(s.GetResetFields())
		}
		child, err := v.add(name, kind, kind.GroupVersion(), storage, filters)
		if err != nil {
			return err
		}
		if creater, ok := storage.(rest.NamedCreater); ok && !isUpdater(storage) {
			child.ManagedFields = managedfields.ForType(reflect.TypeOf(creater.New()).Elem(), kind.GroupVersion().String(), nil)
		}
	}
	return nil
}

// isUpdater reports whether objects of a storage can be written again.
func isUpdater(s rest.Storage) bool {
	_, ok := s.(rest.Updater)
	return ok
}

func (k *kind) singular(kind string) string {
	if k.Singular != "" {
		return k.Singular
	}
	return strings.ToLower(kind)
}

// deprecated returns the warning for a deprecated kind, empty for others.
//
//upstream:k8s.io/apiserver/pkg/endpoints/deprecation.IsDeprecated
//upstream:k8s.io/apiserver/pkg/endpoints/deprecation.WarningMessage
func (i *installer) deprecated(kind schema.GroupVersionKind) string {
	obj, err := i.Scheme.New(kind)
	if err != nil {
		return ""
	}
	parts := strings.Split(resource.Release, ".")
	major, _ := strconv.Atoi(parts[0])
	minor, _ := strconv.Atoi(parts[1])
	if !deprecation.IsDeprecated(obj, major, minor) {
		return ""
	}
	obj.GetObjectKind().SetGroupVersionKind(kind) // the message has it
	return deprecation.WarningMessage(obj)
}

// subresourceKind returns the kind that the storage provides, or else the kind of its objects.
func (i *installer) subresourceKind(storage rest.Storage, gv schema.GroupVersion) (schema.GroupVersionKind, error) {
	if p, ok := storage.(rest.GroupVersionKindProvider); ok {
		return p.GroupVersionKind(gv), nil
	}
	return i.kindOf(storage.New())
}
