package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// FieldManager is the default field manager.
const FieldManager = "flyball"

// Cluster applies objects to a cluster. It is not safe for concurrent use.
type Cluster struct {
	client    dynamic.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	namespace string
	fixed     bool // the namespace was asked for
}

// NewCluster connects to the cluster of a configuration. Objects without a namespace get the given one; if it is fixed,
// objects in other namespaces are errors. NewCluster fails if the API server does not answer.
func NewCluster(ctx context.Context, config *rest.Config, namespace string, fixed bool) (*Cluster, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	err = d.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && err != nil {
		return nil, err // report it once, not for each object; error responses concern the objects
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapperWithContext(memory.NewMemCacheClientWithContext(d))
	return &Cluster{client: client, mapper: mapper, namespace: namespace, fixed: fixed}, nil
}

// Options are the options of Apply.
type Options struct {
	// FieldManager is the field manager; the default is the constant FieldManager.
	FieldManager string
	// Force takes over fields that other managers own.
	Force bool
	// DryRun makes the API server validate the request without changing anything.
	DryRun bool
}

// The outcomes of Apply.
const (
	Created    = "created"
	Configured = "configured"
	Unchanged  = "unchanged"
)

// Outcome is the result of applying an object.
type Outcome struct {
	// Name is the resource and the name of the object, in the format of kubectl.
	Name string
	// What is Created, Configured or Unchanged.
	What string
	// Before and After are the states of the object. Before is nil if it did not exist.
	Before, After *unstructured.Unstructured
}

// Apply applies an object. If the object is a CustomResourceDefinition, Apply waits until it is established, so that
// objects of its kind can follow.
func (c *Cluster) Apply(ctx context.Context, d *Document, o Options) (*Outcome, error) {
	objects, name, err := c.resource(ctx, d)
	if err != nil {
		return nil, err
	}
	before, err := objects.Get(ctx, d.Object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		before = nil
	case err != nil:
		return nil, d.errorf("%s: %w", name, err)
	}
	if o.FieldManager == "" {
		o.FieldManager = FieldManager
	}
	options := metav1.PatchOptions{FieldManager: o.FieldManager, Force: &o.Force, FieldValidation: metav1.FieldValidationStrict}
	if o.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	after, err := patch(ctx, objects, d.Object, options)
	if apierrors.IsConflict(err) && !o.Force {
		return nil, d.errorf("%s: %w: with --force-conflicts, the fields are taken over", name, err)
	}
	if err != nil {
		return nil, d.errorf("%s: %w", name, err)
	}
	outcome := &Outcome{Name: name, What: Configured, Before: before, After: after}
	switch {
	case before == nil:
		outcome.What = Created
	case len(Differences(before, after)) == 0:
		outcome.What = Unchanged
	}
	if d.definition() && !o.DryRun {
		former := ""
		if outcome.What == Configured {
			former = namesConflict(before)
		}
		if err := WaitEstablished(ctx, objects, after.GetName(), former); err != nil {
			return outcome, d.errorf("%s is not established: %w", name, err)
		}
		c.mapper.ResetWithContext(ctx)
	}
	return outcome, nil
}

// Delete deletes the object of a document, and waits until it is gone. It reports whether the object existed. If the
// object still exists when ctx ends, the error names the finalizers that block the deletion.
func (c *Cluster) Delete(ctx context.Context, d *Document) (name string, found bool, err error) {
	objects, name, err := c.resource(ctx, d)
	if err != nil {
		return "", false, err
	}
	policy := metav1.DeletePropagationBackground
	err = objects.Delete(ctx, d.Object.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy})
	if apierrors.IsNotFound(err) {
		return name, false, nil
	}
	if err != nil {
		return name, true, d.errorf("%s: %w", name, err)
	}
	err = waitFor(ctx, objects, d.Object.GetName(), func(e watch.Event) (bool, error) { return e.Type == watch.Deleted, nil })
	if err != nil && !apierrors.IsNotFound(err) {
		if waiting := c.waitingFor(ctx, d); waiting != nil {
			err = fmt.Errorf("%w; %w", err, waiting)
		}
		return name, true, d.errorf("%s is being deleted, but still there: %w", name, err)
	}
	return name, true, nil
}

// resource returns the client for an object's resource, and the object's resource and name.
func (c *Cluster) resource(ctx context.Context, d *Document) (dynamic.ResourceInterface, string, error) {
	gvk := d.Object.GroupVersionKind()
	mapping, err := c.mapper.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, "", d.errorf("the cluster has no kind %s in %s: install its definition first", gvk.Kind, d.Object.GetAPIVersion())
	}
	if err != nil {
		return nil, "", d.errorf("%w", err)
	}
	name := mapping.Resource.GroupResource().String() + "/" + d.Object.GetName()
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return c.client.Resource(mapping.Resource), name, nil
	}
	namespace := d.Object.GetNamespace()
	switch {
	case namespace == "":
		namespace = c.namespace
		d.Object.SetNamespace(namespace)
	case c.fixed && namespace != c.namespace:
		return nil, "", d.errorf("%s: the namespace %q is not that of --namespace, %q", name, namespace, c.namespace)
	}
	return c.client.Resource(mapping.Resource).Namespace(namespace), name, nil
}

// patch applies an object.
func patch(ctx context.Context, objects dynamic.ResourceInterface, object *unstructured.Unstructured,
	options metav1.PatchOptions) (*unstructured.Unstructured, error) {
	content, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return objects.Patch(ctx, object.GetName(), "application/apply-patch+yaml", content, options)
}

// definition reports whether the document is a CustomResourceDefinition.
func (d *Document) definition() bool {
	return d.Object.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}
