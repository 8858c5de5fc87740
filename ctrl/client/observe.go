package client

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/internal/overlay"
)

// This file tells the cache what was written, as far as the server's answer makes it
// certain; see package overlay.

// target is the object that a write is about.
type target struct {
	*resource
	key ObjectKey
	// subResource is empty if the object itself was written.
	subResource string
}

// metadata returns the metadata of the object, as far as they are known.
func (t target) metadata(uid types.UID, version string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: t.key.Name, UID: uid, ResourceVersion: version}}
	if t.namespaced {
		m.Namespace = t.key.Namespace
	}
	m.SetGroupVersionKind(t.gvk)
	return m
}

var (
	statusKind   = schema.GroupKind{Kind: "Status"}
	metadataKind = schema.GroupKind{Group: metav1.GroupName, Kind: "PartialObjectMetadata"}
)

// holds reports whether an answer of a kind holds the target itself. The answer
// about a subresource may be of a kind of its own, which metadata do not tell.
func (t target) holds(kind schema.GroupVersionKind) bool {
	return kind == t.gvk || t.view == asMetadata && kind.GroupKind() == metadataKind && t.subResource == ""
}

// wrote tells of the answer to a write that was not a dry run.
func (c *client) wrote(ctx context.Context, t target, a *answer, dryRun []string, disabled bool) {
	if len(dryRun) > 0 {
		return
	}
	obj, ok := a.decoded.(Object)
	if ok && t.holds(a.kind) {
		c.observe(ctx, obj, disabled)
		return
	}
	var changed *metav1.PartialObjectMetadata
	switch {
	case t.key.Name == "":
		return
	case a.kind.GroupKind() == statusKind:
		// Such as after an eviction: it was done, and no more is said.
		changed = t.metadata("", "")
	case ok && obj.GetResourceVersion() != "":
		// Such as a Scale, which has the resource version of what it scales.
		changed = t.metadata("", obj.GetResourceVersion())
		overlay.Observe(ctx, changed)
	default:
		return // What has no resource version is not stored, such as a token.
	}
	if c.writes != nil && !disabled {
		c.writes.Changed(ctx, changed)
	}
}

// observe tells what an object is after a write.
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

// applied is wrote for the answer to an apply, which is JSON.
func (c *client) applied(ctx context.Context, t target, body runtime.ApplyConfiguration, data []byte, o *ApplyOptions) {
	if c.writes == nil {
		return
	}
	a, err := c.decodeApplied(t, body, data)
	if err != nil {
		c.log.Error(err, "Reads will not include this apply until the watch brings it", "kind", t.gvk)
		return
	}
	c.wrote(ctx, t, a, o.DryRun, o.DisableReadYourWritesConsistency)
}

func (c *client) decodeApplied(t target, body runtime.ApplyConfiguration, data []byte) (*answer, error) {
	kind, err := serializerjson.DefaultMetaFactory.Interpret(data)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if own, ok := body.(*unstructuredApplyConfiguration); ok {
		u = own.Unstructured
	} else if typed, err := c.scheme.New(*kind); err == nil && json.Unmarshal(data, typed) == nil {
		return &answer{kind: *kind, decoded: typed}, nil
	} else if err := u.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return &answer{kind: *kind, decoded: u}, nil
}

// deleted tells what became of obj. The server answers with the object if it is
// still there, or was just now, and with a status if not.
func (c *client) deleted(ctx context.Context, r *resource, obj Object, res rest.Result, o *metav1.DeleteOptions, disabled bool) {
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
		c.log.Error(err, "Cannot read the answer to a deletion", "kind", r.gvk, "object", t.key)
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
	// It may have been another object than the caller's that was deleted, unless
	// the caller has made sure.
	uid := types.UID("")
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		uid = *o.Preconditions.UID
	}
	c.writes.Deleting(ctx, t.metadata(uid, versionOf(obj, uid)))
}

// versionOf returns the resource version of obj if it is the object of the UID.
func versionOf(obj Object, uid types.UID) string {
	if obj.GetUID() != uid {
		return ""
	}
	return obj.GetResourceVersion()
}

// deletedAll tells of the deletion of a collection. The server answers with the
// objects as they were before, if with anything.
func (c *client) deletedAll(ctx context.Context, r *resource, res rest.Result, o *metav1.DeleteOptions) {
	if c.writes == nil || len(o.DryRun) > 0 {
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
			c.writes.Deleting(ctx, t.metadata(obj.GetUID(), obj.GetResourceVersion()))
			return nil
		})
	}
	if err != nil {
		c.log.Info("Reads will not include the deletion of a collection before the watch tells of it", "kind", r.gvk, "reason", err.Error())
	}
}

// finished reports whether nothing keeps an object any longer: it was to be
// deleted, and its last finalizer is gone and its time has run out. Without a
// time the object waits for something else, as a namespace does for its content.
func finished(obj Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && grace != nil && *grace == 0
}
