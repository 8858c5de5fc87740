package daemonset

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/ctrl/client"
)

// history claims the revisions of a DaemonSet, and writes the revision of the present template if that is missing or not
// the latest. The result is nil if another revision has the name: the collision count has changed then, and its event
// triggers the next reconcile.
//
//upstream:pkg/controller/daemon.DaemonSetsController.controlledHistories
//upstream:pkg/controller/daemon.DaemonSetsController.constructHistory
func (r *reconciler) history(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector) (*history, error) {
	all, err := claim.Claim[*appsv1.ControllerRevision](ctx, r.client, r.live, set, kind, selector, &appsv1.ControllerRevisionList{})
	if err != nil {
		return nil, err
	}
	for _, revision := range all {
		if _, ok := revision.Labels[hashLabel]; !ok {
			revision.Labels[hashLabel] = revision.Name
			if err := r.client.Update(ctx, revision); err != nil {
				return nil, err
			}
		}
	}
	h, err := historyOf(set, all)
	if err != nil {
		return nil, err
	}
	if h.create {
		return r.createRevision(ctx, set, &h)
	}
	if len(h.duplicates) > 0 {
		if err := r.relabel(ctx, set, selector, h.current.Labels[hashLabel]); err != nil {
			return nil, err
		}
		if err := r.deleteRevisions(ctx, h.duplicates); err != nil {
			return nil, err
		}
	}
	if h.renumber {
		err = r.client.Update(ctx, h.current)
	}
	return &h, err
}

// createRevision creates the revision of the present template. If another revision has its name, createRevision increments
// the collision count and returns nil.
//
//upstream:pkg/controller/daemon.DaemonSetsController.snapshot
func (r *reconciler) createRevision(ctx context.Context, set *appsv1.DaemonSet, h *history) (*history, error) {
	revision := h.current.DeepCopy()
	err := r.client.Create(ctx, revision)
	if !apierrors.IsAlreadyExists(err) {
		h.current = revision
		return h, err
	}
	existing := &appsv1.ControllerRevision{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(h.current), existing); err != nil {
		return nil, err
	}
	if string(existing.Data.Raw) == string(h.current.Data.Raw) {
		h.current = existing
		return h, nil
	}
	count := int32(1)
	if set.Status.CollisionCount != nil {
		count += *set.Status.CollisionCount
	}
	set.Status.CollisionCount = &count
	return nil, client.IgnoreNotFound(r.client.Status().Update(ctx, set))
}

// relabel sets the label with the hash of the template on all pods of a DaemonSet.
//
//upstream:pkg/controller/daemon.DaemonSetsController.dedupCurHistories
func (r *reconciler) relabel(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector, hash string) error {
	pods, err := r.claimPods(ctx, set, selector)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{hashLabel: hash}}})
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if pod.Labels[hashLabel] == hash {
			continue
		}
		if err := r.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
	}
	return nil
}

// deleteRevisions deletes revisions.
func (r *reconciler) deleteRevisions(ctx context.Context, list []*appsv1.ControllerRevision) error {
	for _, revision := range list {
		if err := r.client.Delete(ctx, revision, client.Preconditions{UID: &revision.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
