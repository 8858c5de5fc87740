package crd

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
)

// definitionStore is the storage of definitions, in which every write settles names and conditions and
// changes the catalog. The lock is taken after admission and validation, which may call back into the
// server, and is held until the write is done.
type definitionStore struct {
	storage.Interface
	kinds *Kinds
	root  string // key of all definitions
}

func (s *definitionStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	k, crd := s.kinds, obj.(*apiextensions.CustomResourceDefinition)
	k.mu.Lock()
	defer k.mu.Unlock()
	settle(crd, k.taken(crd.Spec.Group))
	c, err := k.begin(crd, "")
	if err != nil {
		c.undo()
		return err
	}
	if err := s.Interface.Create(ctx, key, obj, out, ttl); err != nil {
		c.undo()
		return err
	}
	c.commit(ctx, out.(*apiextensions.CustomResourceDefinition))
	return nil
}

func (s *definitionStore) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	k := s.kinds
	var c *change // begun, and the lock held for it
	abandon := func() {
		if c != nil {
			c.undo()
			k.mu.Unlock()
			c = nil
		}
	}
	defer abandon()
	err := s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, func(in runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		abandon() // asked again: another write was faster
		obj, ttl, err := update(in, meta)
		if err != nil {
			return nil, nil, err
		}
		k.mu.Lock()
		crd := obj.(*apiextensions.CustomResourceDefinition)
		settle(crd, k.taken(crd.Spec.Group))
		begun, err := k.begin(crd, in.(*apiextensions.CustomResourceDefinition).ResourceVersion)
		c = begun
		return obj, ttl, err
	}, cached)
	if err != nil {
		return err
	}
	c.commit(ctx, out.(*apiextensions.CustomResourceDefinition))
	c = nil
	k.mu.Unlock()
	return nil
}

func (s *definitionStore) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, o storage.DeleteOptions) error {
	k := s.kinds
	var going string // what is out of the catalog already, with the lock held
	abandon := func() {
		if going != "" {
			k.publish(going, k.served(going))
			k.mu.Unlock()
			going = ""
		}
	}
	defer abandon()
	err := s.Interface.Delete(ctx, key, out, preconditions, func(ctx context.Context, obj runtime.Object) error {
		abandon() // asked again: another write was faster
		if err := validate(ctx, obj); err != nil {
			return err
		}
		k.mu.Lock()
		going = obj.(*apiextensions.CustomResourceDefinition).Name
		k.publish(going, nil)
		return nil
	}, cached, o)
	if err != nil {
		return err
	}
	if d := k.definitions[going]; d != nil {
		delete(k.definitions, going)
		d.life.end()
	}
	k.resettle(ctx, out.(*apiextensions.CustomResourceDefinition).Spec.Group)
	k.mu.Unlock()
	going = ""
	return nil
}

// served returns what is served of a definition, nil if there is nothing.
func (k *Kinds) served(name string) *serving {
	if d := k.definitions[name]; d != nil {
		return d.serving
	}
	return nil
}

// change is a write of a definition that has been prepared.
type change struct {
	kinds     *Kinds
	name      string
	next      definition
	before    *serving
	born      bool // with a life of its own
	published bool
}

// begin prepares the write of a settled definition over the stored version that is given, empty if
// there is none. What it will serve is in the catalog from now on, so that nobody can learn of the
// definition before: unless it is plain that the write will be refused. If it cannot be served there is
// a change all the same, to be undone, or committed without service.
func (k *Kinds) begin(crd *apiextensions.CustomResourceDefinition, over string) (*change, error) {
	c := &change{kinds: k, name: crd.Name, next: definition{crd: crd.DeepCopy()}}
	current, known := k.definitions[crd.Name], ""
	if current != nil {
		c.before, known = current.serving, current.crd.ResourceVersion
		if current.crd.UID == crd.UID {
			c.next.life = current.life
		}
	}
	if c.next.life == nil {
		c.next.life = newLife(k.ctx)
		c.born = true
	}
	switch {
	case current != nil && current.serving != nil && sameService(current.crd, crd):
		c.next.serving = current.serving
	case established(crd):
		serving, err := k.serve(c.next.crd, c.next.life)
		if err != nil {
			return c, err
		}
		c.next.serving = serving
	}
	if over == known {
		c.publish()
	}
	return c, nil
}

func (c *change) publish() {
	c.published = true
	if c.next.serving != c.before {
		c.kinds.publish(c.name, c.next.serving)
	}
}

// undo takes back what begin did.
func (c *change) undo() {
	if c.published && c.next.serving != c.before {
		c.kinds.publish(c.name, c.before)
	}
	if c.next.serving != c.before {
		c.next.serving.retire()
	}
	if c.born {
		c.next.life.end()
	}
}

// commit takes note that the write succeeded and what was stored.
func (c *change) commit(ctx context.Context, stored *apiextensions.CustomResourceDefinition) {
	if !c.published {
		c.publish()
	}
	if c.next.serving != c.before {
		c.before.retire()
	}
	c.next.crd.ResourceVersion = stored.ResourceVersion
	c.kinds.definitions[c.name] = &c.next
	if ending(stored) {
		c.kinds.beginCleanup(c.name, stored.UID, c.next.life)
	}
	c.kinds.resettle(ctx, stored.Spec.Group)
}

// publish makes what is served the definition's part of the catalog.
func (k *Kinds) publish(name string, s *serving) {
	if s == nil {
		k.options.Catalog.Set(source(name))
		return
	}
	k.options.Catalog.Set(source(name), s.resources...)
}

// taken returns the names that are given away in a group.
func (k *Kinds) taken(group string) names {
	n := noNames()
	for _, d := range k.definitions {
		if d.crd.Spec.Group == group {
			n.add(d.crd.Status.AcceptedNames)
		}
	}
	for _, g := range k.options.Catalog.Snapshot().Groups {
		if g.Name != group {
			continue
		}
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				if _, custom := r.Storage.(*customResources); custom {
					continue
				}
				n.add(apiextensions.CustomResourceDefinitionNames{
					Plural: r.Name, Singular: r.Singular, ShortNames: r.ShortNames, Kind: r.Kind.Kind, ListKind: r.ListKind,
				})
			}
		}
	}
	return n
}

// resettle gives the names that a write has freed to the definitions that wait for them.
func (k *Kinds) resettle(ctx context.Context, group string) {
	ctx = context.WithoutCancel(ctx)
	for _, name := range slices.Sorted(maps.Keys(k.definitions)) {
		d := k.definitions[name]
		if d.crd.Spec.Group != group || !waiting(d.crd) {
			continue
		}
		crd := d.crd.DeepCopy()
		settle(crd, k.taken(group))
		if equality.Semantic.DeepEqual(crd.Status, d.crd.Status) {
			continue
		}
		if err := k.rewrite(ctx, crd); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot give free names to a definition", "definition", name)
			continue
		}
		return // the rewrite has resettled the others
	}
}

// rewrite stores a definition's new status. The lock is held.
func (k *Kinds) rewrite(ctx context.Context, crd *apiextensions.CustomResourceDefinition) error {
	c, err := k.begin(crd, crd.ResourceVersion)
	if err != nil {
		c.undo()
		return err
	}
	out := &apiextensions.CustomResourceDefinition{}
	err = k.store.Interface.GuaranteedUpdate(ctx, k.store.root+"/"+crd.Name, out, false, storage.NewUIDPreconditions(string(crd.UID)),
		storage.SimpleUpdate(func(in runtime.Object) (runtime.Object, error) {
			current := in.(*apiextensions.CustomResourceDefinition)
			current.Status = crd.Status
			return current, nil
		}), nil)
	if err != nil {
		c.undo()
		return err
	}
	c.commit(ctx, out)
	return nil
}
