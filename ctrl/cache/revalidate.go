package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
)

// This file contains the live reads. The store knows which objects are invalid because a write
// changed them and the response did not contain the result. Before such an object is read, it is
// listed with the selectors of the watch, which takes no other permission than the watch. Reads
// then see the result of the list.

// maxReadsByName is the maximum number of objects of a partition that are listed one by one. For
// more of them, one list is cheaper.
const maxReadsByName = 8

// revalidate updates the invalid objects with a name, or all of a namespace if name is empty, or
// all of the informer if namespace is empty too. The operation is get or list.
func (i *informer) revalidate(ctx context.Context, operation, namespace, name string) error {
	invalid := i.store.Invalid(namespace, name)
	if len(invalid) == 0 {
		return nil
	}
	began := time.Now()
	err := i.revalidateEach(ctx, namespace, name, invalid)
	observeConsistencyWait(operation, began, err)
	return err
}

// revalidateEach updates invalid objects, few of them one by one.
func (i *informer) revalidateEach(
	ctx context.Context, namespace, name string, invalid []*store.Invalidation,
) error {
	byPartition := map[*partition][]*store.Invalidation{}
	for _, v := range invalid {
		p := i.partitionFor(v.Key.Namespace)
		byPartition[p] = append(byPartition[p], v)
	}
	for p, invalid := range byPartition {
		if len(invalid) > maxReadsByName {
			if err := p.revalidate(ctx, namespace, "", invalid); err != nil {
				return err
			}
			continue
		}
		for n, v := range invalid {
			if err := p.revalidate(ctx, v.Key.Namespace, v.Key.Name, invalid[n:n+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// liveReads are the live reads of a partition in progress, by what they list. Concurrent readers
// share them, as in singleflight.
type liveReads struct {
	mu     sync.Mutex
	byName map[client.ObjectKey]*liveRead
}

// liveRead is a live read that other readers may wait for. Listed is closed when the server has
// responded, and done when the result is in the store or err is set.
type liveRead struct {
	listed, done chan struct{}
	err          error
}

// join returns the live read of a key, and whether the caller began it as none was in progress.
func (l *liveReads) join(key client.ObjectKey) (read *liveRead, begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if read = l.byName[key]; read != nil {
		return read, false
	}
	if l.byName == nil {
		l.byName = map[client.ObjectKey]*liveRead{}
	}
	read = &liveRead{listed: make(chan struct{}), done: make(chan struct{})}
	l.byName[key] = read
	return read, true
}

// end removes a live read and wakes the readers that wait for it.
func (l *liveReads) end(key client.ObjectKey, read *liveRead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byName, key)
	close(read.done)
}

// wait waits for the live read of another reader. Once the result is being transformed, it waits
// for lockTimeout at most, because the caller may be that transform.
func (r *liveRead) wait(ctx context.Context) error {
	select {
	case <-r.listed:
	case <-r.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	timeout := time.NewTimer(lockTimeout)
	defer timeout.Stop()
	select {
	case <-r.done:
		return r.err
	case <-timeout.C:
		return errLocked
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// revalidate updates the invalid objects with a name, in a namespace or in the whole partition.
// Concurrent readers of the same share one live read.
func (p *partition) revalidate(ctx context.Context, namespace, name string, invalid []*store.Invalidation) error {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	for {
		read, begun := p.liveReads.join(key)
		if begun {
			return p.performLiveRead(ctx, key, read, invalid)
		}
		if err := read.wait(ctx); err != nil {
			return fmt.Errorf("failed to read back writes that the watch has not delivered: %w", err)
		}
		// The live read may have begun before the write.
		if invalid = p.informer.store.InEffect(invalid); len(invalid) == 0 {
			return nil
		}
	}
}

// performLiveRead performs a live read that other readers may have joined.
func (p *partition) performLiveRead(
	ctx context.Context, key client.ObjectKey, read *liveRead, invalid []*store.Invalidation,
) (err error) {
	defer func() {
		// If ctx is done, the other readers retry: their contexts may not be.
		if ctx.Err() == nil {
			read.err = err
		}
		p.liveReads.end(key, read)
	}()
	if invalid = p.informer.store.InEffect(invalid); len(invalid) == 0 {
		return nil
	}
	return p.revalidateInvalid(ctx, key.Namespace, key.Name, invalid, read.listed)
}

// revalidateInvalid lists the objects with a name, in a namespace or in the whole partition, closes
// listed, and updates the invalid ones in the store.
func (p *partition) revalidateInvalid(
	ctx context.Context, namespace, name string, invalid []*store.Invalidation, listed chan<- struct{},
) error {
	wanted := make(map[client.ObjectKey]bool, len(invalid))
	for _, v := range invalid {
		wanted[v.Key] = true
	}
	found := make(map[client.ObjectKey]client.Object, len(invalid))
	p.informer.stats.liveReads.Add(1)
	version, err := p.listerWatcher.liveList(ctx, namespace, name, func(obj client.Object) {
		if key := client.ObjectKeyFromObject(obj); wanted[key] {
			found[key] = obj
		}
	})
	close(listed)
	if err != nil {
		p.informer.stats.error(err)
	}
	if isPermanent(err) {
		p.log().Error(err, "Live read refused; reads do not include some writes until the watch delivers them")
		for _, v := range invalid {
			p.informer.store.Validate(v)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to read back writes that the watch has not delivered: %w", err)
	}
	for _, v := range invalid {
		obj := found[v.Key]
		if obj != nil {
			switch obj, err = p.prepare(ctx, obj, lockTimeout); {
			case err == nil:
			case errors.Is(err, errLocked), ctx.Err() != nil:
				return err
			default:
				p.log().Error(err, "Could not prepare an object; reads do not include a write until the watch delivers it")
				p.informer.store.Validate(v)
				continue
			}
		}
		p.informer.store.Revalidated(v, obj, store.ParseVersion(version))
	}
	return nil
}

// isPermanent reports whether a retry of the request would fail with the same error.
func isPermanent(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	return slices.Contains([]int32{
		http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
	}, status.Status().Code)
}
