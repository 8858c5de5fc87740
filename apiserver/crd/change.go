package crd

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
)

// change is a write of a definition in progress. The caller holds the lock of Kinds from prepare to finish.
type change struct {
	kinds   *Kinds
	name    string
	next    *definition // outlives the change
	before  *serving
	newGate bool // no other definition has next.gate
}

// prepare decides on the names and the conditions of a definition that is about to be stored, and adds its resources to
// the catalog, so that clients observe the resources no later than the definition. If the definition cannot be served,
// prepare returns the error together with a change that serves nothing. The caller holds the lock and must finish the
// change.
func (k *Kinds) prepare(crd *apiextensions.CustomResourceDefinition) (*change, error) {
	updateStatus(crd, k.taken(crd.Spec.Group))
	return k.apply(crd)
}

// apply is prepare for a definition with an up-to-date status.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.updateCustomResourceDefinition
func (k *Kinds) apply(crd *apiextensions.CustomResourceDefinition) (*change, error) {
	own := withoutSchemas(crd) // a copy, because commit sets the resource version
	c := &change{kinds: k, name: crd.Name, next: &definition{crd: own}, before: k.served(crd.Name)}
	current := k.definitions[crd.Name]
	if current != nil && current.crd.UID == crd.UID {
		c.next.gate = current.gate
	} else {
		c.next.gate, c.newGate = newInstanceGate(k.ctx), true
	}
	texts, err := schemaTextsOf(crd)
	if err != nil {
		return c, err
	}
	switch {
	case c.before != nil && sameService(current.crd, own) && c.before.schemas.have(texts):
		c.next.serving = c.before
	case established(crd):
		last := c.before
		if current == nil {
			last = k.forked(crd.Name)
		}
		if c.next.serving, err = k.serve(own, texts, c.next.gate, last); err != nil {
			return c, err
		}
	}
	if c.next.serving != c.before {
		k.publish(c.name, c.next.serving)
	}
	return c, nil
}

// finish commits the change with the stored definition, or rolls it back if err is not nil.
func (c *change) finish(ctx context.Context, stored runtime.Object, err error) error {
	if err != nil {
		c.rollback()
		return err
	}
	c.commit(ctx, stored.(*apiextensions.CustomResourceDefinition))
	return nil
}

// rollback restores the catalog.
func (c *change) rollback() {
	if c.next.serving != c.before {
		c.kinds.publish(c.name, c.before)
		c.next.serving.retire()
	}
	if c.newGate {
		c.next.gate.cancel()
	}
}

// commit records the stored definition, and accepts names that it has freed.
func (c *change) commit(ctx context.Context, stored *apiextensions.CustomResourceDefinition) {
	c.record(stored)
	c.kinds.acceptFreedNames(ctx, stored.Spec.Group)
}

// record records the stored definition.
func (c *change) record(stored *apiextensions.CustomResourceDefinition) {
	if c.next.serving != c.before {
		c.before.retire()
	}
	c.next.crd.ResourceVersion = stored.ResourceVersion
	c.kinds.definitions[c.name] = c.next
	if terminating(stored) {
		c.kinds.beginCleanup(c.name, stored.UID, c.next.gate)
	}
}

// served returns the served kind of a definition, or nil if the definition is not served.
func (k *Kinds) served(name string) *serving {
	if d := k.definitions[name]; d != nil {
		return d.serving
	}
	return nil
}

// publish adds the resources of a definition to the catalog.
func (k *Kinds) publish(name string, s *serving) {
	if s == nil {
		k.options.Catalog.Set(source(name))
		return
	}
	k.options.Catalog.Set(source(name), s.resources...)
}

// taken returns the names in use in a group.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.getAcceptedNamesForGroup
func (k *Kinds) taken(group string) names {
	n := noNames()
	for _, d := range k.definitions {
		if d.crd.Spec.Group == group {
			n.add(d.crd.Status.AcceptedNames)
		}
	}
	for r := range k.options.Catalog.Snapshot().Group(group) {
		if _, custom := r.Storage.(*customResources); custom {
			continue
		}
		n.add(apiextensions.CustomResourceDefinitionNames{
			Plural: r.Name, Singular: r.Singular, ShortNames: r.ShortNames, Kind: r.Kind.Kind, ListKind: r.ListKind,
		})
	}
	return n
}

// acceptFreedNames accepts names that a write has freed for the definitions that want them. The caller holds the lock.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.requeueAllOtherGroupCRDs
func (k *Kinds) acceptFreedNames(ctx context.Context, group string) {
	ctx = context.WithoutCancel(ctx)
	for _, name := range slices.Sorted(maps.Keys(k.definitions)) {
		d := k.definitions[name]
		if d.crd.Spec.Group != group || namesAccepted(d.crd) {
			continue
		}
		switch err := k.acceptNames(ctx, d); {
		case err == nil:
			return // replace has done so for the others
		case errors.Is(err, errUnchanged), errors.Is(err, errStale): // another server was first
		default:
			klog.FromContext(ctx).Error(err, "Cannot accept free names of a definition", "definition", name)
		}
	}
}

// freesNames reports whether a definition would get other names, or another condition about them.
func freesNames(crd *apiextensions.CustomResourceDefinition, taken names) bool {
	accepted, conflict := accept(crd.Spec.Names, crd.Status.AcceptedNames, taken)
	c := apiextensions.FindCRDCondition(crd, apiextensions.NamesAccepted)
	return conflict == nil || c == nil || c.Reason != conflict.reason || c.Message != conflict.message ||
		!equality.Semantic.DeepEqual(accepted, crd.Status.AcceptedNames)
}

// errUnchanged means that no name of a definition has become free.
var errUnchanged = errors.New("no names are free")

// acceptNames accepts free names for a definition that wants them. The caller holds the lock.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.sync
func (k *Kinds) acceptNames(ctx context.Context, d *definition) error {
	if !freesNames(d.crd, k.taken(d.crd.Spec.Group)) {
		return errUnchanged
	}
	key, crd := k.store.root+"/"+d.crd.Name, &apiextensions.CustomResourceDefinition{}
	if err := k.store.Get(ctx, key, storage.GetOptions{}, crd); err != nil {
		return err
	}
	if crd.ResourceVersion != d.crd.ResourceVersion {
		return errStale
	}
	updateStatus(crd, k.taken(crd.Spec.Group))
	if equality.Semantic.DeepEqual(crd.Status, d.crd.Status) {
		return errUnchanged
	}
	return k.store.replace(ctx, key, crd.ResourceVersion, crd, &apiextensions.CustomResourceDefinition{})
}
