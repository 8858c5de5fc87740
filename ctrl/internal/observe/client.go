package observe

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/memsize"
)

// Client returns a client that records the reads and writes of reconciles. The options are the options of c.
func (r *Recorder) Client(c client.Client, options client.Options) client.Client {
	o := &observedClient{Client: c, live: map[schema.GroupKind]bool{}}
	if options.Cache != nil {
		o.cache = FindCache(options.Cache.Reader)
		o.unstructured = options.Cache.Unstructured
		for _, obj := range options.Cache.DisableFor {
			if gvk, err := c.GroupVersionKindFor(obj); err == nil {
				o.live[gvk.GroupKind()] = true
			}
		}
	}
	return o
}

// observedClient is the manager's client.
type observedClient struct {
	client.Client
	cache        Cache // nil if there is none that can be looked at
	unstructured bool
	live         map[schema.GroupKind]bool

	types sync.Map // of typeKey to *Type
}

// typeKey identifies a Type: by the Go type alone, unless that is of many kinds.
type typeKey struct {
	typ reflect.Type
	gvk schema.GroupVersionKind
}

// typeOf returns the type of an object or a list. Its kind is empty if it is not known.
func (c *observedClient) typeOf(obj runtime.Object) *Type {
	var key any = reflect.TypeOf(obj)
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		key = typeKey{reflect.TypeOf(obj), obj.GetObjectKind().GroupVersionKind()}
	}
	if t, ok := c.types.Load(key); ok {
		return t.(*Type)
	}
	t := &Type{}
	if gvk, err := c.GroupVersionKindFor(obj); err == nil {
		t.GVK = gvk
	}
	if _, t.list = obj.(client.ObjectList); t.list {
		t.GVK.Kind = strings.TrimSuffix(t.GVK.Kind, "List")
	}
	_, isUnstructured := obj.(runtime.Unstructured)
	t.live = c.cache == nil || isUnstructured && !c.unstructured || c.live[t.GVK.GroupKind()]
	actual, _ := c.types.LoadOrStore(key, t)
	return actual.(*Type)
}

// cachedKind returns the informer that reads of obj use, or nil. A list has none of its own: it has the informer of an
// object of the type.
func (c *observedClient) cachedKind(t *Type, obj runtime.Object) CachedKind {
	if c.cache == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cached == nil || t.cached.IsStopped() {
		t.cached = c.cache.ObservedKind(t.GVK, objectOf(obj))
	}
	return t.cached
}

// objectOf returns an object in the representation of obj, which may be a list.
func objectOf(obj runtime.Object) client.Object {
	switch obj := obj.(type) {
	case client.Object:
		return obj
	case runtime.Unstructured:
		return &unstructured.Unstructured{}
	case *metav1.PartialObjectMetadataList:
		return &metav1.PartialObjectMetadata{}
	}
	return nil // typed
}

// Get implements client.Reader.
func (c *observedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	run := runOf(ctx)
	if run == nil {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	t, began := c.typeOf(obj), time.Now()
	err := c.Client.Get(ctx, key, obj, opts...)
	if run.drop(aRead) {
		return err
	}
	read := c.read(run, t, obj, key, began, err)
	if err == nil {
		read.Version = obj.GetResourceVersion()
	}
	run.addRead(read)
	return err
}

// read returns the part of a Read that objects and lists have in common.
func (c *observedClient) read(run *Run, t *Type, obj runtime.Object, key client.ObjectKey, began time.Time, err error) Read {
	took := time.Since(began)
	read := Read{At: began.Sub(run.Started), Took: took, Type: t, Key: key, Cached: !t.live}
	if err != nil {
		read.Err, read.NotFound = clip(err.Error(), maxMessage), apierrors.IsNotFound(err)
	}
	if read.Cached {
		if kind := c.cachedKind(t, obj); kind != nil {
			last, open := kind.Contact(key.Namespace)
			read.NoWatch = !open
			read.Contact = max(began.Add(took).Sub(last), 0)
		}
	}
	return read
}

// List implements client.Reader.
func (c *observedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	run := runOf(ctx)
	if run == nil {
		return c.Client.List(ctx, list, opts...)
	}
	t, began := c.typeOf(list), time.Now()
	err := c.Client.List(ctx, list, opts...)
	if run.drop(aRead) {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	read := c.read(run, t, list, types.NamespacedName{Namespace: o.Namespace}, began, err)
	read.List = true
	if o.LabelSelector != nil {
		read.Selection = o.LabelSelector.String()
	}
	if o.FieldSelector != nil {
		read.Selection = strings.Trim(read.Selection+" "+o.FieldSelector.String(), " ")
	}
	read.Selection = clip(read.Selection, maxMessage)
	if err == nil {
		read.Items, read.Version = meta.LenList(list), list.GetResourceVersion()
	}
	run.addRead(read)
	return err
}

// attempt is a write in progress.
type attempt struct {
	run   *Run // nil if the write is not recorded
	kind  CachedKind
	began time.Time
	Write
}

// begin begins a write, which is not recorded if ctx belongs to no reconcile.
func (c *observedClient) begin(ctx context.Context, verb string, obj runtime.Object, key client.ObjectKey, subResource string, dryRun []string) (a attempt) {
	if a.run = runOf(ctx); a.run == nil {
		return a
	}
	a.began = time.Now()
	a.Write = Write{
		At: a.began.Sub(a.run.Started), Verb: verb, SubResource: subResource, Type: c.typeOf(obj), Key: key, DryRun: len(dryRun) > 0,
	}
	a.kind = c.cachedKind(a.Type, obj)
	if a.kind != nil && verb != "create" && key.Name != "" {
		a.Before, a.Was, _ = a.kind.State(key)
	}
	return a
}

// end ends a write with the response in obj, and returns err.
func (a *attempt) end(obj client.Object, err error) error {
	if a.run == nil {
		return err
	}
	a.Took = time.Since(a.began)
	switch {
	case err != nil:
		a.Err = clip(err.Error(), maxMessage)
	case obj != nil:
		a.Key = client.ObjectKeyFromObject(obj) // the server may have generated the name
		if !a.Deletes() {
			a.UID, a.Version = obj.GetUID(), obj.GetResourceVersion()
			a.after(obj)
		} else if a.UID == "" && a.Before != nil {
			a.UID, a.Guessed = a.Before.UID(), true
		}
	}
	if a.After == nil {
		a.Before = nil // there is nothing to compare it with
	}
	a.run.addWrite(&a.Write)
	return err
}

// after sets the object after the write: the cache's, if it has the response, or else a copy.
func (a *attempt) after(obj client.Object) {
	if a.Version == "" || a.DryRun || a.run.isFull(aWrite) {
		return
	}
	if a.kind != nil {
		if state, version, ok := a.kind.State(a.Key); ok && version == a.Version {
			a.After = state
			return
		}
	}
	if a.SubResource == "" || a.SubResource == "status" {
		a.After = copyOf(obj)
		a.Large = a.After == nil
	}
}

// maxCopy is the size in memory up to which an object that is in no cache is copied.
const maxCopy = 64 << 10

// copied is the copy of an object.
type copied struct {
	obj  client.Object
	size int
}

// copyOf returns a State with a copy, or nil if the object is too large.
func copyOf(obj client.Object) State {
	size := memsize.Of(obj, maxCopy)
	if size > maxCopy {
		return nil
	}
	if c, ok := obj.DeepCopyObject().(client.Object); ok {
		return copied{c, size}
	}
	return nil
}

func (c copied) Object() client.Object { return c.obj.DeepCopyObject().(client.Object) }
func (c copied) UID() types.UID        { return c.obj.GetUID() }
func (c copied) Size() int             { return c.size }

// Create implements client.Writer.
func (c *observedClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	a := c.begin(ctx, "create", obj, client.ObjectKeyFromObject(obj), "", (&client.CreateOptions{}).ApplyOptions(opts).DryRun)
	return a.end(obj, c.Client.Create(ctx, obj, opts...))
}

// Update implements client.Writer.
func (c *observedClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	a := c.begin(ctx, "update", obj, client.ObjectKeyFromObject(obj), "", (&client.UpdateOptions{}).ApplyOptions(opts).DryRun)
	return a.end(obj, c.Client.Update(ctx, obj, opts...))
}

// Patch implements client.Writer.
func (c *observedClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	a := c.begin(ctx, "patch", obj, client.ObjectKeyFromObject(obj), "", (&client.PatchOptions{}).ApplyOptions(opts).DryRun)
	return a.end(obj, c.Client.Patch(ctx, obj, patch, opts...))
}

// Delete implements client.Writer.
func (c *observedClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	a := c.begin(ctx, "delete", obj, client.ObjectKeyFromObject(obj), "", o.DryRun)
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		a.UID = *o.Preconditions.UID
	} else {
		a.UID, a.Guessed = obj.GetUID(), true // the object may have been replaced
	}
	return a.end(obj, c.Client.Delete(ctx, obj, opts...))
}

// DeleteAllOf implements client.Writer.
func (c *observedClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	o := (&client.DeleteAllOfOptions{}).ApplyOptions(opts)
	a := c.begin(ctx, "deletecollection", obj, types.NamespacedName{Namespace: o.Namespace}, "", o.DryRun)
	return a.end(nil, c.Client.DeleteAllOf(ctx, obj, opts...))
}

// Apply implements client.Writer.
func (c *observedClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	o := (&client.ApplyOptions{}).ApplyOptions(opts)
	return c.apply(ctx, obj, "", o, func() error { return c.Client.Apply(ctx, obj, opts...) })
}

// apply calls send and records it. The response is in the configuration.
func (c *observedClient) apply(
	ctx context.Context, obj runtime.ApplyConfiguration, subResource string, o *client.ApplyOptions, send func() error,
) error {
	if runOf(ctx) == nil {
		return send()
	}
	named := contentOf(obj)
	if named == nil {
		return send()
	}
	a := c.begin(ctx, "apply", named, client.ObjectKeyFromObject(named), subResource, o.DryRun)
	if a.kind == nil && c.cache != nil { // an apply of a typed kind
		if typed, err := c.Scheme().New(a.Type.GVK); err == nil {
			if typed, ok := typed.(client.Object); ok {
				if a.kind = c.cachedKind(c.typeOf(typed), typed); a.kind != nil {
					a.Before, a.Was, _ = a.kind.State(a.Key)
				}
			}
		}
	}
	err := send()
	if response := contentOf(obj); response != nil && err == nil {
		named = response
	}
	return a.end(named, err)
}

// contentOf returns the content of a configuration, or nil.
func contentOf(obj runtime.ApplyConfiguration) *unstructured.Unstructured {
	data, err := json.Marshal(obj)
	u := &unstructured.Unstructured{}
	if err != nil || json.Unmarshal(data, &u.Object) != nil || u.GetKind() == "" {
		return nil
	}
	return u
}

// Status implements client.StatusClient.
func (c *observedClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c *observedClient) SubResource(name string) client.SubResourceClient {
	return &observedSubResource{c.Client.SubResource(name), c, name}
}

// observedSubResource is a client of a subresource.
type observedSubResource struct {
	client.SubResourceClient
	client *observedClient
	name   string
}

// response returns the object that has the response, if it is the object that is written.
func (s *observedSubResource) response(obj, body client.Object) client.Object {
	if body != nil && reflect.TypeOf(body) != reflect.TypeOf(obj) {
		return nil
	}
	if body != nil {
		return body
	}
	return obj
}

// Create implements client.SubResourceWriter.
func (s *observedSubResource) Create(
	ctx context.Context, obj, subResource client.Object, opts ...client.SubResourceCreateOption,
) error {
	o := (&client.SubResourceCreateOptions{}).ApplyOptions(opts)
	a := s.client.begin(ctx, "create", obj, client.ObjectKeyFromObject(obj), s.name, o.DryRun)
	return a.end(nil, s.SubResourceClient.Create(ctx, obj, subResource, opts...))
}

// Update implements client.SubResourceWriter.
func (s *observedSubResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	o := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	a := s.client.begin(ctx, "update", obj, client.ObjectKeyFromObject(obj), s.name, o.DryRun)
	return a.end(s.response(obj, o.SubResourceBody), s.SubResourceClient.Update(ctx, obj, opts...))
}

// Patch implements client.SubResourceWriter.
func (s *observedSubResource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	o := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	a := s.client.begin(ctx, "patch", obj, client.ObjectKeyFromObject(obj), s.name, o.DryRun)
	return a.end(s.response(obj, o.SubResourceBody), s.SubResourceClient.Patch(ctx, obj, patch, opts...))
}

// Apply implements client.SubResourceWriter.
func (s *observedSubResource) Apply(
	ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	o := (&client.SubResourceApplyOptions{}).ApplyOpts(opts)
	return s.client.apply(ctx, obj, s.name, &o.ApplyOptions, func() error {
		return s.SubResourceClient.Apply(ctx, obj, opts...)
	})
}
