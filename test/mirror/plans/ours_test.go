package plans

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// ours is one of our controllers on a world. It is the manager that the controller is added to.
type ours struct {
	manager.Manager
	world       *world
	controllers []reconcile.Reconciler // in the order in which they are added
	orphans     func(*world, client.Object) []client.Object
	indexes     map[reflect.Type]map[string]client.IndexerFunc
}

// newOurs returns the controllers that a function adds to a manager. orphans, if not nil, returns what the second of them
// reconciles.
func newOurs(t *testing.T, add func(manager.Manager) error, orphans func(*world, client.Object) []client.Object) *ours {
	t.Helper()
	m := &ours{orphans: orphans, indexes: map[reflect.Type]map[string]client.IndexerFunc{}}
	if err := add(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// withInventory returns a function that adds a controller with an inventory that watches nothing.
func withInventory[I any](add func(manager.Manager, *I) error) func(manager.Manager) error {
	return func(mgr manager.Manager) error { return add(mgr, new(I)) }
}

// run reconciles an object until nothing changes.
func (m *ours) run(t *testing.T, w *world, object client.Object) {
	m.world = w
	for range rounds {
		err := m.reconcile(t, 0, object)
		if m.orphans != nil {
			for _, o := range m.orphans(w, object) {
				err = errors.Join(err, m.reconcile(t, 1, o))
			}
		}
		if changed := w.takeChanged(); len(changed) == 0 {
			return
		} else if err != nil && testing.Verbose() {
			t.Log(err)
		}
	}
	t.Errorf("our controller does not end: %q", w.writes)
}

// reconcile reconciles an object by one of the controllers.
func (m *ours) reconcile(t *testing.T, controller int, object client.Object) error {
	_, err := m.controllers[controller].Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	return err
}

// rounds is how often a controller may need to see what it has changed.
const rounds = 20

func (m *ours) GetClient() client.Client             { return worldClient{m} }
func (m *ours) GetAPIReader() client.Reader          { return worldClient{m} }
func (m *ours) GetFieldIndexer() client.FieldIndexer { return m }
func (m *ours) GetScheme() *runtime.Scheme           { return scheme.Scheme }
func (m *ours) GetLogger() logr.Logger               { return logr.Discard() }
func (m *ours) GetRESTMapper() meta.RESTMapper {
	return testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme)
}
func (m *ours) GetConfig() *rest.Config                         { return metricsConfig }
func (m *ours) GetCache() cache.Cache                           { return nil }
func (m *ours) GetEventRecorderFor(string) record.EventRecorder { return recorder{m} }
func (m *ours) GetControllerOptions() config.Controller {
	skip := true
	return config.Controller{SkipNameValidation: &skip}
}

// Add takes a controller.
func (m *ours) Add(r manager.Runnable) error {
	if c, ok := r.(reconcile.Reconciler); ok {
		m.controllers = append(m.controllers, c)
	}
	return nil
}

// IndexField implements client.FieldIndexer.
func (m *ours) IndexField(_ context.Context, obj client.Object, field string, f client.IndexerFunc) error {
	t := reflect.TypeOf(obj)
	if m.indexes[t] == nil {
		m.indexes[t] = map[string]client.IndexerFunc{}
	}
	m.indexes[t][field] = f
	return nil
}

// worldClient reads and writes a world.
type worldClient struct{ *ours }

func (c worldClient) Scheme() *runtime.Scheme                         { return scheme.Scheme }
func (c worldClient) RESTMapper() meta.RESTMapper                     { return nil }
func (c worldClient) Status() client.StatusWriter                     { return c.SubResource("status") }
func (c worldClient) IsObjectNamespaced(runtime.Object) (bool, error) { return true, nil }
func (c worldClient) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, scheme.Scheme)
}
func (c worldClient) SubResource(name string) client.SubResourceClient {
	return subResource{client: c, name: name}
}
func (c worldClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	panic("not needed")
}
func (c worldClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	panic("not needed")
}

func (c worldClient) Get(_ context.Context, name client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if partial, ok := obj.(*metav1.PartialObjectMetadata); ok {
		found, err := c.world.get(key{resourceOfKind(partial.GroupVersionKind()), name})
		if err == nil {
			m, _ := meta.Accessor(found.DeepCopyObject())
			partial.ObjectMeta = *meta.AsPartialObjectMetadata(m).ObjectMeta.DeepCopy()
		}
		return err
	}
	found, err := c.world.get(key{resourceOf(obj), name})
	if err == nil {
		set(obj, found)
	}
	return err
}

// set sets an object to a copy of another.
func set(to, from client.Object) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}

func (c worldClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	kind, err := c.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind.Kind = kind.Kind[:len(kind.Kind)-len("List")]
	_, partial := list.(*metav1.PartialObjectMetadataList)
	var found []runtime.Object
	for _, obj := range c.world.list(resourceOfKind(kind)) {
		if (o.Namespace == "" || o.Namespace == obj.GetNamespace()) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels()))) &&
			c.matches(obj, o) {
			copied := obj.DeepCopyObject()
			if partial {
				copied = meta.AsPartialObjectMetadata(copied.(client.Object))
			}
			found = append(found, copied)
		}
	}
	return meta.SetList(list, found)
}

// matches reports whether an object matches the field selector.
func (c worldClient) matches(obj client.Object, o client.ListOptions) bool {
	if o.FieldSelector == nil {
		return true
	}
	for _, r := range o.FieldSelector.Requirements() {
		if r.Field == "metadata.name" {
			if obj.GetName() != r.Value {
				return false
			}
			continue
		}
		index := c.indexes[reflect.TypeOf(obj)][r.Field]
		if index == nil {
			panic(fmt.Sprintf("no index %s of %T", r.Field, obj))
		}
		if !slices.Contains(index(obj), r.Value) {
			return false
		}
	}
	return true
}

func (c worldClient) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return written(obj)(c.world.create(obj))
}

// written returns a function that sets an object to the response of a write.
func written(obj client.Object) func(client.Object, error) error {
	return func(response client.Object, err error) error {
		if err == nil {
			set(obj, response)
		}
		return err
	}
}

func (c worldClient) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return written(obj)(c.world.update(obj, ""))
}

func (c worldClient) Patch(_ context.Context, obj client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.patch(obj, p, "")
}

func (c worldClient) patch(obj client.Object, p client.Patch, subresource string) error {
	data, err := p.Data(obj)
	if err != nil {
		return err
	}
	return written(obj)(c.world.patch(keyOf(obj), p.Type(), data, subresource))
}

func (c worldClient) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := client.DeleteOptions{}
	o.ApplyOptions(opts)
	return c.world.delete(keyOf(obj), o.AsDeleteOptions().Preconditions)
}

// subResource writes subresources.
type subResource struct {
	client.SubResourceClient
	client worldClient
	name   string
}

func (s subResource) Update(_ context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	if s.name == "scale" {
		o := client.SubResourceUpdateOptions{}
		o.ApplyOptions(opts)
		return s.client.world.setScale(key{resourceOfKind(obj.GetObjectKind().GroupVersionKind()), client.ObjectKeyFromObject(obj)},
			o.SubResourceBody.(*autoscalingv1.Scale).Spec.Replicas)
	}
	return written(obj)(s.client.world.update(obj, s.name))
}

func (s subResource) Patch(_ context.Context, obj client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.client.patch(obj, p, s.name)
}

// Get reads the scale of an object.
func (s subResource) Get(_ context.Context, obj, scale client.Object, _ ...client.SubResourceGetOption) error {
	found, err := s.client.world.get(key{resourceOfKind(obj.GetObjectKind().GroupVersionKind()), client.ObjectKeyFromObject(obj)})
	if err != nil {
		return err
	}
	set(scale, scaleOf(found))
	return nil
}

// recorder records events.
type recorder struct{ *ours }

func (r recorder) Event(_ runtime.Object, eventType, reason, message string) {
	r.world.record(eventType, reason, message)
}

func (r recorder) Eventf(_ runtime.Object, eventType, reason, format string, args ...any) {
	r.world.record(eventType, reason, fmt.Sprintf(format, args...))
}

func (r recorder) AnnotatedEventf(_ runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	r.world.record(eventType, reason, fmt.Sprintf(format, args...))
}
