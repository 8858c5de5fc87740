package client

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/internal/overlay"
)

// This file tells the cache what was written; see package overlay.

// holds reports whether body is an object of the resource itself, and not of a
// kind that only a subresource has.
func (r *resource) holds(body runtime.Object) bool {
	gvk, err := r.client.GroupVersionKindFor(body)
	return err == nil && gvk == r.gvk
}

// wrote tells what an object was after a write that was not a dry run.
func (c *client) wrote(ctx context.Context, obj Object, dryRun []string, disabled bool) {
	if len(dryRun) > 0 {
		return
	}
	overlay.Observe(ctx, obj)
	if c.writes == nil || disabled {
		return
	}
	if finished(obj) {
		c.writes.Deleted(ctx, obj)
	} else {
		c.writes.Wrote(ctx, obj)
	}
}

// applied is wrote for the answer to an apply.
func (c *client) applied(ctx context.Context, body runtime.ApplyConfiguration, answer []byte, r *resource, o *ApplyOptions) {
	if c.writes == nil {
		return
	}
	if gvk, _, err := identify(body); err != nil || gvk != r.gvk {
		return // the body of a subresource
	}
	var obj Object
	if u, ok := body.(*unstructuredApplyConfiguration); ok {
		obj = u.Unstructured
	} else if t, err := c.scheme.New(r.gvk); err == nil && json.Unmarshal(answer, t) == nil {
		obj, _ = t.(Object)
	} else {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(answer); err != nil {
			c.log.Error(err, "Reads will not include this apply until the watch brings it", "kind", r.gvk)
			return
		}
		obj = u
	}
	if obj != nil {
		c.wrote(ctx, obj, o.DryRun, o.DisableReadYourWritesConsistency)
	}
}

// deleted tells what became of obj. The server answers with the object if it is
// still there, or was just now, and with a status if not.
func (c *client) deleted(ctx context.Context, r *resource, obj Object, res rest.Result, dryRun []string, disabled bool) {
	if len(dryRun) > 0 {
		return
	}
	overlay.Observe(ctx, obj)
	if c.writes == nil || disabled {
		return
	}
	answer, err := res.Get()
	if err != nil {
		c.log.Error(err, "Reads will not include this deletion until the watch brings it", "object", ObjectKeyFromObject(obj))
		return
	}
	if left, ok := answer.(Object); ok {
		if left.GetDeletionTimestamp() != nil && !finished(left) {
			c.writes.Wrote(ctx, left)
		} else {
			c.writes.Deleted(ctx, left)
		}
		return
	}
	gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:       obj.GetNamespace(),
		Name:            obj.GetName(),
		UID:             obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(),
	}}
	gone.SetGroupVersionKind(r.gvk)
	if status, ok := answer.(*metav1.Status); ok && status.Details != nil && status.Details.UID != "" {
		gone.UID = status.Details.UID
	}
	c.writes.Deleted(ctx, gone)
}

// finished reports whether nothing keeps an object any longer: it was to be
// deleted, and its last finalizer is gone and its time has run out. Without a
// time the object waits for something else, as a namespace does for its content.
func finished(obj Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && grace != nil && *grace == 0
}
