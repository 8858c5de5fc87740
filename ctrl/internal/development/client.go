package development

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
)

// Client returns a client that reports its writes to the monitor.
func (m *Monitor) Client(c client.Client) client.Client { return &observedClient{c, m} }

// observedClient is the manager's client.
type observedClient struct {
	client.Client
	monitor *Monitor
}

// attempt is a write in progress. The nil attempt is one that is not observed.
type attempt struct {
	*Monitor
	write
	run  Run
	late bool // whether it began after the lease was over, in a reconcile of the leader's
}

// begin begins a write of obj. A dry run is not observed, nor is an object of an unknown kind, which
// the client rejects.
func (c *observedClient) begin(
	ctx context.Context, obj client.Object, subResource, manager string, dryRun []string,
) *attempt {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil || len(dryRun) > 0 {
		return nil
	}
	return c.monitor.begin(ctx, gvk, obj, subResource, manager)
}

// begin begins a write. It returns nil if that has panicked.

func (m *Monitor) begin(
	ctx context.Context, gvk schema.GroupVersionKind, obj metav1.Object, subResource, manager string,
) (begun *attempt) {
	m.contained.do(func() { begun = m.newAttempt(ctx, gvk, obj, subResource, manager) })
	return begun
}

func (m *Monitor) newAttempt(
	ctx context.Context, gvk schema.GroupVersionKind, obj metav1.Object, subResource, manager string,
) *attempt {
	a := &attempt{Monitor: m, run: runOf(ctx)}
	a.gvk, a.subResource = gvk, subResource
	a.GroupKind, a.Namespace, a.Name = gvk.GroupKind(), obj.GetNamespace(), obj.GetName()
	a.by = writer{own: true, manager: manager}
	if manager == "" {
		a.by.manager = m.writes.defaultManager
	}
	if a.run != nil {
		a.by.controller, a.request = a.run.ControllerName(), a.run.RequestName()
		a.late = a.run.LeaderOnly() && m.isLeaseOver()
	}
	m.writes.begin(a.objectID)
	return a
}

// end ends a write with the response in obj, and returns err.
func (a *attempt) end(obj metav1.Object, err error) error {
	if a != nil {
		a.contained.do(func() { a.observeEnd(obj, err) })
	}
	return err
}

// observeEnd evaluates the result of a write.
func (a *attempt) observeEnd(obj metav1.Object, err error) {
	id := a.objectID
	written := version{objectID: id}
	defer func() { a.writes.end(id, written, a.by) }()
	var status apierrors.APIStatus
	switch {
	case err == nil:
		a.Name = obj.GetName() // which the server may have generated
		written = version{a.objectID, obj.GetResourceVersion()}
		a.uid = obj.GetUID()
		if a.subResource == "" {
			a.observe(obj)
		}
		w := a.write
		a.later(func() { a.wrote(w) })
		if a.late {
			a.wroteWithoutLease(w)
		}
	case apierrors.IsConflict(err):
		w := a.write
		a.later(func() { a.conflicted(w, err) })
	case !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError:
		a.writes.lost(id) // it may have been executed, as after a timeout
	}
}

// observe copies what matters of the response, as the object belongs to the caller.
func (w *write) observe(obj metav1.Object) {
	if len(obj.GetOwnerReferences()) == 0 {
		return
	}
	for _, ref := range obj.GetOwnerReferences() {
		w.references = append(w.references, *ref.DeepCopy())
	}
	for _, entry := range obj.GetManagedFields() {
		w.managedFields = append(w.managedFields, *entry.DeepCopy())
	}
}

// Create implements client.Writer.
func (c *observedClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	o := (&client.CreateOptions{}).ApplyOptions(opts)
	a := c.begin(ctx, obj, "", o.FieldManager, o.DryRun)
	return a.end(obj, c.Client.Create(ctx, obj, opts...))
}

// Update implements client.Writer.
func (c *observedClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	o := (&client.UpdateOptions{}).ApplyOptions(opts)
	a := c.begin(ctx, obj, "", o.FieldManager, o.DryRun)
	return a.end(obj, c.Client.Update(ctx, obj, opts...))
}

// Patch implements client.Writer.
func (c *observedClient) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	o := (&client.PatchOptions{}).ApplyOptions(opts)
	a := c.begin(ctx, obj, "", o.FieldManager, o.DryRun)
	return a.end(obj, c.Client.Patch(ctx, obj, patch, opts...))
}

// Apply implements client.Writer.
func (c *observedClient) Apply(
	ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption,
) error {
	o := (&client.ApplyOptions{}).ApplyOptions(opts)
	return c.monitor.apply(ctx, obj, "", o, func() error { return c.Client.Apply(ctx, obj, opts...) })
}

// apply calls send, and observes it. The response is in the configuration.
func (m *Monitor) apply(
	ctx context.Context, obj runtime.ApplyConfiguration, subResource string, o *client.ApplyOptions, send func() error,
) error {
	named := m.metadataOf(obj)
	if named == nil || len(o.DryRun) > 0 {
		return send()
	}
	a := m.begin(ctx, named.GroupVersionKind(), named, subResource, o.FieldManager)
	err := send()
	if response := m.metadataOf(obj); response != nil {
		named = response
	}
	return a.end(named, err)
}

// metadataOf returns the kind and the metadata of a configuration, or nil.
func (m *Monitor) metadataOf(obj runtime.ApplyConfiguration) (metadata *metav1.PartialObjectMetadata) {
	m.contained.do(func() { metadata = decodeMetadata(obj) })
	return metadata
}

func decodeMetadata(obj runtime.ApplyConfiguration) *metav1.PartialObjectMetadata {
	data, err := json.Marshal(obj)
	m := &metav1.PartialObjectMetadata{}
	if err != nil || json.Unmarshal(data, m) != nil || m.Kind == "" {
		return nil
	}
	return m
}

// Delete implements client.Writer. Only its conflicts matter.
func (c *observedClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	err := c.Client.Delete(ctx, obj, opts...)
	if !apierrors.IsConflict(err) {
		return err
	}
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	return c.begin(ctx, obj, "", "", o.DryRun).end(obj, err)
}

// Status implements client.StatusClient.
func (c *observedClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c *observedClient) SubResource(name string) client.SubResourceClient {
	return &observedSubResource{c.Client.SubResource(name), c, name}
}

// observedSubResource is a client of a subresource. Its method Create is not observed: what it posts,
// such as an eviction, has no version.
type observedSubResource struct {
	client.SubResourceClient
	client *observedClient
	name   string
}

// Update implements client.SubResourceWriter.
func (s *observedSubResource) Update(
	ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption,
) error {
	o := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	a := s.client.begin(ctx, obj, s.name, o.FieldManager, o.DryRun)
	return a.end(response(obj, o.SubResourceBody), s.SubResourceClient.Update(ctx, obj, opts...))
}

// Patch implements client.SubResourceWriter.
func (s *observedSubResource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	o := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	a := s.client.begin(ctx, obj, s.name, o.FieldManager, o.DryRun)
	return a.end(response(obj, o.SubResourceBody), s.SubResourceClient.Patch(ctx, obj, patch, opts...))
}

// Apply implements client.SubResourceWriter. If the body is another configuration than the
// object's, the response is in both.
func (s *observedSubResource) Apply(
	ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	o := (&client.SubResourceApplyOptions{}).ApplyOpts(opts)
	return s.client.monitor.apply(ctx, obj, s.name, &o.ApplyOptions, func() error {
		return s.SubResourceClient.Apply(ctx, obj, opts...)
	})
}

// response returns what the response to the write of a subresource is decoded into. A Scale has the
// name and the resource version of its object.
func response(obj, body client.Object) client.Object {
	if body != nil {
		return body
	}
	return obj
}
