package kinds

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// allocate makes the writes of a store allocate and its deletions release. A dry run releases what
// it allocates when it ends.
func allocate(store *registry.Store, allocator ResourceAllocator[Object]) {
	begin := func(ctx context.Context, obj, old Object, dryRun []string) (registry.FinishFunc, error) {
		release, err := allocator.Allocate(ctx, obj, old, dryrun.IsDryRun(dryRun))
		if err != nil {
			return nil, err
		}
		return func(_ context.Context, written bool) {
			if !written || dryrun.IsDryRun(dryRun) {
				release()
			}
		}, nil
	}
	store.BeginCreate = func(ctx context.Context, obj runtime.Object,
		options *metav1.CreateOptions) (registry.FinishFunc, error) {
		return begin(ctx, obj.(Object), nil, options.DryRun)
	}
	store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object,
		options *metav1.UpdateOptions) (registry.FinishFunc, error) {
		return begin(ctx, obj.(Object), old.(Object), options.DryRun)
	}
	store.AfterUpdate = func(obj runtime.Object, options *metav1.UpdateOptions) {
		if o, ok := obj.(Object); ok && !dryrun.IsDryRun(options.DryRun) {
			allocator.Commit(o)
		}
	}
	store.AfterDelete = func(obj runtime.Object, options *metav1.DeleteOptions) {
		if o, ok := obj.(Object); ok && !dryrun.IsDryRun(options.DryRun) {
			allocator.Release(o)
		}
	}
}
