package client

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/internal/overlay"
	"flyball.dev/ctrl/internal/representation"
)

// This file notifies the cache of writes, as far as the server's response shows their result; see
// package overlay.

// target is the object that is written, or its subresource.
type target struct {
	*resource
	key ObjectKey
	// subResource is empty if the object itself was written.
	subResource string
}

// metadata returns an object with the target's kind and key, and the rest as given.
func (t target) metadata(uid types.UID, version string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: t.key.Name, UID: uid, ResourceVersion: version}}
	if t.namespaced {
		m.Namespace = t.key.Namespace
	}
	m.SetGroupVersionKind(t.gvk)
	return m
}

var statusKind = schema.GroupKind{Kind: "Status"}

// holds reports whether a response of a kind contains the target itself. The response to the write
// of a subresource may be of another kind, which PartialObjectMetadata hides.
func (t target) holds(kind schema.GroupVersionKind) bool {
	return kind == t.gvk || t.representation == representation.Metadata && t.subResource == "" &&
		kind.GroupKind() == representation.MetadataKind.GroupKind()
}

// wrote notifies the cache and the context's observer of the response to a write, unless that was a
// dry run.
func (c *client) wrote(ctx context.Context, t target, res *response, dryRun []string, disabled bool) {
	if len(dryRun) > 0 {
		return
	}
	obj, ok := res.decoded.(Object)
	if ok && t.holds(res.kind) {
		c.observe(ctx, obj, disabled || res.versionOnly)
		return
	}
	var changed *metav1.PartialObjectMetadata
	switch {
	case t.key.Name == "":
		return
	case res.kind.GroupKind() == statusKind:
		// An eviction, for example: it succeeded, but its result is not known.
		changed = t.metadata("", "")
	case ok && obj.GetResourceVersion() != "":
		// A Scale, for example, which has the resource version of the object that it scales.
		changed = t.metadata("", obj.GetResourceVersion())
		overlay.Observe(ctx, changed)
	default:
		return // Without a resource version, as of a TokenRequest, nothing was stored.
	}
	if c.writes != nil && !disabled {
		c.writes.Invalidate(ctx, changed)
	}
}

// observe notifies of an object's state after a write.
func (c *client) observe(ctx context.Context, obj Object, disabled bool) {
	overlay.Observe(ctx, obj)
	switch {
	case c.writes == nil || disabled:
	case finished(obj):
		c.writes.Deleted(ctx, obj)
	default:
		c.writes.Wrote(ctx, obj)
	}
}

// applied is wrote for the response to an apply, which is JSON.
func (c *client) applied(ctx context.Context, t target, body runtime.ApplyConfiguration, data []byte, o *ApplyOptions) {
	if c.writes == nil && !overlay.Observed(ctx) {
		return // the response need not be decoded
	}
	res, err := c.decodeApplied(ctx, t, body, data)
	if err != nil {
		c.log.Error(err, "Reads will not include this apply before the watch delivers it", "kind", t.gvk)
		return
	}
	c.wrote(ctx, t, res, o.DryRun, o.DisableReadYourWritesConsistency)
}

func (c *client) decodeApplied(ctx context.Context, t target, body runtime.ApplyConfiguration, data []byte) (*response, error) {
	kind, err := serializerjson.DefaultMetaFactory.Interpret(data)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if own, ok := body.(*unstructuredApplyConfiguration); ok {
		u = own.Unstructured
	} else if typed, err := c.decodeTyped(ctx, t, *kind, data); err == nil {
		return &response{kind: *kind, decoded: typed}, nil
	} else if err := u.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return &response{kind: *kind, decoded: u}, nil
}

// decodeTyped decodes the JSON of an object into a Go value. The target itself gets the form in
// which a watch of the kind is decoded: protobuf has no empty lists, for example, and JSON has.
func (c *client) decodeTyped(ctx context.Context, t target, kind schema.GroupVersionKind, data []byte) (runtime.Object, error) {
	obj, err := c.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, err
	}
	if !t.holds(kind) {
		return obj, nil
	}
	r, err := c.resource(ctx, resourceKey{gvk: kind, representation: representation.Typed})
	if err != nil || !r.protobuf {
		return obj, err
	}
	data, err = obj.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		return nil, err
	}
	if obj, err = c.scheme.New(kind); err != nil {
		return nil, err
	}
	return obj, obj.(interface{ Unmarshal([]byte) error }).Unmarshal(data)
}

// deleted notifies of the deletion of obj. The response is the object if it is terminating or, for
// some kinds, its last state, and otherwise a Status.
func (c *client) deleted(
	ctx context.Context,
	r *resource,
	obj Object,
	res rest.Result,
	o *metav1.DeleteOptions,
	disabled bool,
) {
	if len(o.DryRun) > 0 {
		return
	}
	overlay.Observe(ctx, obj)
	if c.writes == nil || disabled {
		return
	}
	t := target{resource: r, key: ObjectKeyFromObject(obj)}
	decoded, err := res.Get()
	if err != nil {
		c.log.Error(err, "Failed to decode the response to a deletion", "kind", r.gvk, "object", t.key)
	}
	switch left := decoded.(type) {
	case *metav1.Status:
		if d := left.Details; d != nil && d.UID != "" {
			c.writes.Deleted(ctx, t.metadata(d.UID, versionOf(obj, d.UID)))
			return
		}
	case Object:
		if kind, err := c.GroupVersionKindFor(left); err != nil || kind != r.gvk {
			break
		}
		if left.GetDeletionTimestamp() != nil && !finished(left) {
			c.writes.Wrote(ctx, left)
		} else {
			c.writes.Deleted(ctx, left)
		}
		return
	}
	// Without a UID precondition, the object that was deleted may be another one with
	// the caller's key.
	uid := types.UID("")
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		uid = *o.Preconditions.UID
	}
	c.writes.Deleting(ctx, t.metadata(uid, versionOf(obj, uid)))
}

// versionOf returns the resource version of obj if it has the UID.
func versionOf(obj Object, uid types.UID) string {
	if obj.GetUID() != uid {
		return ""
	}
	return obj.GetResourceVersion()
}

// deletedAll notifies of the deletion of a collection. The response may be the list of the objects
// before the deletion.
func (c *client) deletedAll(
	ctx context.Context, r *resource, res rest.Result, o *metav1.DeleteOptions, disabled bool,
) {
	notifies := c.writes != nil && !disabled
	if len(o.DryRun) > 0 || !notifies && !overlay.Observed(ctx) {
		return
	}
	list, err := res.Get()
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			obj, err := meta.Accessor(item)
			if err != nil {
				return err
			}
			t := target{resource: r, key: ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
			gone := t.metadata(obj.GetUID(), obj.GetResourceVersion())
			overlay.Observe(ctx, gone)
			if notifies {
				c.writes.Deleting(ctx, gone)
			}
			return nil
		})
	}
	if err != nil {
		c.log.Info("Reads will not include the deletion of a collection before the watch delivers it",
			"kind", r.gvk, "reason", err.Error())
	}
}

// finished reports whether the deletion of an object is complete: its last finalizer
// was removed and its grace period is over. An object without a grace period waits
// for something else, as a namespace does for its content.
func finished(obj Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && grace != nil && *grace == 0
}
