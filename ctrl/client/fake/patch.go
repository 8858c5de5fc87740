package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/reflectutil"
)

// Patch implements [client.Writer].
func (c *fakeClient) Patch(
	_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	return c.patch(obj, patch, false, (&client.PatchOptions{}).ApplyOptions(opts))
}

// patch patches an object, or only its status, and sets obj to the result.
func (c *fakeClient) patch(
	obj client.Object, patch client.Patch, status bool, o *client.PatchOptions,
) error {
	gvk, err := c.kindOf(obj)
	if err != nil {
		return err
	}
	if reflectutil.IsNil(patch) {
		return fmt.Errorf("the patch of %s %s must not be nil", gvk.Kind, obj.GetName())
	}
	raw := o.AsPatchOptions()
	if errs := validation.ValidatePatchOptions(raw, patch.Type()); len(errs) > 0 {
		options := schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}
		return apierrors.NewInvalid(options, "", errs)
	}
	if isDryRun(raw.DryRun) {
		return nil
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	i := id{gvk, client.ObjectKeyFromObject(obj)}
	c.mu.Lock()
	defer c.mu.Unlock()
	var stored client.Object
	if patch.Type() == types.ApplyPatchType {
		stored, err = c.applyPatch(i, data, raw, status)
	} else {
		stored, err = c.editPatch(i, patch.Type(), data, raw.FieldManager, status)
	}
	if err != nil || stored == nil {
		return err
	}
	return c.show(stored, obj, gvk)
}

// editPatch patches an object that exists and returns the result. The lock is held.
func (c *fakeClient) editPatch(
	i id, t types.PatchType, data []byte, manager string, status bool,
) (client.Object, error) {
	old, err := c.current(i)
	if err != nil {
		return nil, err
	}
	next, err := c.patched(i.gvk, old, t, data)
	if err != nil {
		return nil, err
	}
	if next.GetName() != i.Name {
		return nil, badRequest("the name of the object (%s) does not match the name on the URL (%s)",
			next.GetName(), i.Name)
	}
	if next.GetNamespace() != i.Namespace {
		return nil, badRequest("the namespace of the object (%s) does not match the namespace on the URL (%s)",
			next.GetNamespace(), i.Namespace)
	}
	ch := change{status: status, unconditional: true, manager: manager}
	stored, err := c.replace(i, old, next, ch)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return next, nil
	}
	if c.fields == nil {
		return c.objects.get(i) // as the tracker has it
	}
	return copyOf(stored), nil
}

// patched returns a copy of an object with a patch applied.
func (c *fakeClient) patched(
	gvk schema.GroupVersionKind, old client.Object, t types.PatchType, patch []byte,
) (client.Object, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch t {
	case types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err == nil {
			after, err = operations.Apply(before)
		}
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, patch)
	case types.StrategicMergePatchType:
		var schema runtime.Object = c.newObject(gvk)
		if _, ok := schema.(runtime.Unstructured); ok {
			schema = &metav1.PartialObjectMetadata{} // nothing else has a schema
		}
		after, err = strategicpatch.StrategicMergePatch(before, patch, schema)
	case types.ApplyCBORPatchType:
		return nil, errors.New("apply CBOR patches are not supported in the fake client")
	default:
		return nil, fmt.Errorf("patches of type %s are not supported", t)
	}
	if err != nil {
		return nil, err
	}
	next := c.newObject(gvk)
	if err := decode(after, next); err != nil {
		return nil, err
	}
	next.GetObjectKind().SetGroupVersionKind(gvk)
	return next, nil
}

// Apply implements [client.Writer].
func (c *fakeClient) Apply(
	_ context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption,
) error {
	return c.apply(obj, obj, false, (&client.ApplyOptions{}).ApplyOptions(opts))
}

// apply applies body, and sets obj to the result.
func (c *fakeClient) apply(
	obj, body runtime.ApplyConfiguration, status bool, o *client.ApplyOptions,
) error {
	u, err := configuration(body)
	if err != nil {
		return err
	}
	if err := c.patch(u, applyPatch{}, status, &client.PatchOptions{Raw: o.AsPatchOptions()}); err != nil {
		return err
	}
	return setConfiguration(obj, u)
}

// applyPatch is a patch that applies the object itself.
type applyPatch struct{}

func (applyPatch) Type() types.PatchType                  { return types.ApplyPatchType }
func (applyPatch) Data(obj client.Object) ([]byte, error) { return json.Marshal(obj) }

// configuration returns an apply configuration as an unstructured object.
func configuration(ac runtime.ApplyConfiguration) (*unstructured.Unstructured, error) {
	if reflectutil.IsNil(ac) {
		return nil, fmt.Errorf("the apply configuration must not be nil, but is a %T", ac)
	}
	data, err := json.Marshal(ac)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the apply configuration: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, u); err != nil {
		return nil, fmt.Errorf("failed to decode the apply configuration: %w", err)
	}
	return u, nil
}

// setConfiguration sets an apply configuration to an object.
func setConfiguration(ac runtime.ApplyConfiguration, obj any) error {
	data, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	if d, ok := ac.(json.Unmarshaler); ok {
		return d.UnmarshalJSON(data)
	}
	if reflect.TypeOf(ac).Kind() != reflect.Pointer {
		return nil // passed by value
	}
	zero(ac)
	return utiljson.Unmarshal(data, ac)
}

// applyPatch applies a configuration and returns the object, or nil if it is deleted. The lock is
// held.
func (c *fakeClient) applyPatch(
	i id, data []byte, o *metav1.PatchOptions, status bool,
) (client.Object, error) {
	config := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON(data)
	if err == nil {
		err = utiljson.Unmarshal(data, config)
	}
	if err != nil {
		return nil, badRequest("error decoding YAML: %v", err)
	}
	if gvk := config.GroupVersionKind(); gvk != i.gvk {
		return nil, badRequest("the configuration is of kind %s, the object is of kind %s", gvk, i.gvk)
	}
	config.SetName(i.Name)
	config.SetNamespace(i.Namespace)
	old, err := c.current(i)
	switch {
	case apierrors.IsNotFound(err) && !status:
		return c.applyNew(i, config, o)
	case err != nil:
		return nil, err
	case status && !c.withStatus.Has(i.gvk):
		return nil, i.notFound()
	}
	if version := config.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return nil, i.conflict("object was modified")
	}
	if uid := config.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, i.conflict("Precondition failed: UID in precondition: %s, UID in object meta: %s",
			uid, old.GetUID())
	}
	config.SetDeletionTimestamp(old.GetDeletionTimestamp())
	c.restrict(i.gvk, config, status)
	if t, ok := c.objects.(*tracked); ok {
		return c.applyTracked(t, i, old, config, o)
	}
	config.SetResourceVersion("")
	m := managed{gvk: i.gvk}
	if status {
		m.subresource = "status"
	}
	merged, err := c.fields.apply(m, old, config, o.FieldManager, ptr.Deref(o.Force, false))
	if err != nil {
		return nil, err
	}
	next, err := c.stored(merged, i.gvk)
	if err != nil {
		return nil, err
	}
	next.SetResourceVersion(old.GetResourceVersion())
	ch := change{status: status, applied: true, manager: o.FieldManager}
	stored, err := c.replace(i, old, next, ch)
	if err != nil || stored == nil {
		return nil, err
	}
	return copyOf(stored), nil
}

// restrict removes from a configuration what it cannot change: the status, or all but the status.
func (c *fakeClient) restrict(
	gvk schema.GroupVersionKind, config *unstructured.Unstructured, status bool,
) {
	switch {
	case status:
		content := map[string]any{
			"apiVersion": config.Object["apiVersion"],
			"kind":       config.Object["kind"],
		}
		if s, ok := config.Object["status"]; ok {
			content["status"] = s
		}
		only := &unstructured.Unstructured{Object: content}
		only.SetName(config.GetName())
		only.SetNamespace(config.GetNamespace())
		only.SetResourceVersion(config.GetResourceVersion())
		only.SetManagedFields(config.GetManagedFields()) // which are an error
		config.Object = content
	case c.withStatus.Has(gvk):
		delete(config.Object, "status")
	}
}

// applyNew creates an object by a configuration. The lock is held.
func (c *fakeClient) applyNew(
	i id, config *unstructured.Unstructured, o *metav1.PatchOptions,
) (client.Object, error) {
	if i.Name == "" {
		return nil, errNameRequired(i.gvk)
	}
	if uid := config.GetUID(); uid != "" {
		return nil, i.conflict("uid mismatch: the provided object specified uid %s, "+
			"and no existing object was found", uid)
	}
	c.restrict(i.gvk, config, false)
	if t, ok := c.objects.(*tracked); ok {
		config.SetResourceVersion(c.firstVersion())
		return c.applyTracked(t, i, nil, config, o)
	}
	config.SetResourceVersion("")
	force := ptr.Deref(o.Force, false)
	merged, err := c.fields.apply(managed{gvk: i.gvk}, nil, config, o.FieldManager, force)
	if err != nil {
		return nil, err
	}
	next, err := c.stored(merged, i.gvk)
	if err != nil {
		return nil, err
	}
	next.SetResourceVersion(c.firstVersion())
	if err := c.objects.create(i, next, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	return copyOf(next), nil
}

// applyTracked makes a tracker apply a configuration. old is nil for a new object.
func (c *fakeClient) applyTracked(
	t *tracked, i id, old client.Object, config *unstructured.Unstructured, o *metav1.PatchOptions,
) (client.Object, error) {
	if old != nil {
		version, err := c.nextVersion(old.GetResourceVersion())
		if err != nil {
			return nil, err
		}
		config.SetResourceVersion(version)
	}
	if err := t.apply(i, config, *o); err != nil {
		return nil, err
	}
	obj, err := t.get(i)
	if err != nil || old == nil || obj.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return obj, err
	}
	return nil, c.remove(i, obj)
}
