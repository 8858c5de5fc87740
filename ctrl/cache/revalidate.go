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

// This file has the live reads. The store knows which objects are stale because a
// write changed them and its answer did not contain the result. Before such an object
// is read, it is listed with the selectors of the watch, so that no permission is
// needed that the watch does not need. Reads then see the result of the list.

// maxReadsByName is how many objects of a part are listed one by one. For more of them,
// one list is cheaper.
const maxReadsByName = 8

// revalidate updates what is invalid under a name, in a namespace if name is empty, or
// everywhere if namespace is empty too.
func (i *informer) revalidate(ctx context.Context, namespace, name string) error {
	invalid := i.store.Invalid(namespace, name)
	if len(invalid) == 0 {
		return nil
	}
	byPart := map[*partition][]*store.Invalidation{}
	for _, v := range invalid {
		p := i.partitionFor(v.Key.Namespace)
		byPart[p] = append(byPart[p], v)
	}
	for p, invalid := range byPart {
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

// liveReads are the live reads of a part that are under way, by what they list.
type liveReads struct {
	mu     sync.Mutex
	byName map[client.ObjectKey]*liveRead
}

// liveRead is a live read that other readers may wait for. Listed is closed when the
// server has answered, and done when the answer is in the store or err says why not.
type liveRead struct {
	listed, done chan struct{}
	err          error
}

// join returns the live read of a key, begun if there is none under way.
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

func (l *liveReads) end(key client.ObjectKey, read *liveRead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byName, key)
	close(read.done)
}

// wait waits for a live read of another reader, but not for long once it has come to
// the transform: it may be the transform that waits.
func (r *liveRead) wait(ctx context.Context) error {
	select {
	case <-r.listed:
	case <-r.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	busy := time.NewTimer(lockTimeout)
	defer busy.Stop()
	select {
	case <-r.done:
		return r.err
	case <-busy.C:
		return errLocked
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// revalidate brings up to date what is in a name, or in a namespace or all of the
// part. Readers that list the same at the same time share what the server answers.
func (p *partition) revalidate(ctx context.Context, namespace, name string, invalid []*store.Invalidation) error {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	for {
		read, begun := p.liveReads.join(key)
		if begun {
			return p.liveRead(ctx, key, read, invalid)
		}
		if err := read.wait(ctx); err != nil {
			return fmt.Errorf("cannot read what was written before the cache has caught up with it: %w", err)
		}
		// It may have begun before the write.
		if invalid = p.informer.store.Standing(invalid); len(invalid) == 0 {
			return nil
		}
	}
}

// liveRead does a live read of its own.
func (p *partition) liveRead(ctx context.Context, key client.ObjectKey, read *liveRead, invalid []*store.Invalidation) (err error) {
	defer func() {
		if ctx.Err() == nil {
			read.err = err // The others' contexts may live longer.
		}
		p.liveReads.end(key, read)
	}()
	if invalid = p.informer.store.Standing(invalid); len(invalid) == 0 {
		return nil
	}
	return p.readLive(ctx, key.Namespace, key.Name, invalid, read.listed)
}

// readLive lists a name, or a namespace or all of the part, closes listed, and brings up
// to date what is in there.
func (p *partition) readLive(ctx context.Context, namespace, name string, invalid []*store.Invalidation, listed chan<- struct{}) error {
	asked := make(map[client.ObjectKey]bool, len(invalid))
	for _, v := range invalid {
		asked[v.Key] = true
	}
	found := make(map[client.ObjectKey]client.Object, len(invalid))
	p.informer.stats.liveReads.Add(1)
	version, err := p.server.liveList(ctx, namespace, name, func(obj client.Object) {
		if key := client.ObjectKeyFromObject(obj); asked[key] {
			found[key] = obj
		}
	})
	close(listed)
	if err != nil {
		p.informer.stats.error(err)
	}
	if isPermanent(err) {
		p.log().Error(err, "reads will not include some writes before the watch delivers them")
		for _, v := range invalid {
			p.informer.store.Validate(v)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read what was written before the cache has caught up with it: %w", err)
	}
	for _, v := range invalid {
		obj := found[v.Key]
		if obj != nil {
			switch obj, err = p.prepare(ctx, obj, lockTimeout); {
			case err == nil:
			case errors.Is(err, errLocked), ctx.Err() != nil:
				return err
			default:
				p.log().Error(err, "reads will not include a write before the watch delivers it")
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
