// Package crd serves CustomResourceDefinitions and the custom resources that they define.
//
// A write of a definition takes effect before it returns: its names are accepted or rejected, its conditions are set,
// and its resources are in the catalog. kube-apiserver leaves this to controllers, which run later.
//
// One lock guards the acceptance of names, the storage of definitions and the catalog, so that the catalog changes in
// the order of the writes. The cleanups, which delete the resources of deleted definitions, are goroutines.
//
// Several servers may use one storage. With [Options].Shared, a goroutine of each serves the definitions that the others
// write, soon after the write.
//
// The resources are made with upstream's apiextensions libraries. The catalog after a write of a definition is computed
// without a lock, and committed by compare-and-swap under it; a stale result is computed again.
//
// Custom resources share unchanged values with the stored objects, which are immutable. Compiled schemas recognize
// values that pruning, defaulting and validation leave unchanged (structure.go, schemavalidator.go). The compiled form
// of a version stays while its schema stays. A schema is kept as compressed text, since a tree takes a hundred times the
// memory, and is compiled at its first use (schematext.go, schemas.go). So a kind that nobody uses takes some KiB. Lists
// that are compared pairwise have bounds (load.go).
package crd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
)

// Options configure [Kinds].
type Options struct {
	// Storage stores the definitions and the custom resources.
	Storage storage.Store
	// Catalog lists the definitions and the resources that they define. A definition cannot use the names of other
	// resources in its group.
	Catalog *resource.Catalog
	// RemovedVersions serves definitions in v1beta1 too, which Kubernetes has removed.
	RemovedVersions bool
	// Authorizer is for handlers that check a second permission.
	Authorizer authorizer.UnconditionalAuthorizer
	// MaxRequestBodyBytes limits request bodies; zero means no limit.
	MaxRequestBodyBytes int64
	// ServiceResolver resolves the services of conversion webhooks. The default uses their DNS names.
	ServiceResolver webhook.ServiceResolver
	// WebhookAuthentication authenticates the server to conversion webhooks; it may be nil.
	WebhookAuthentication webhook.AuthenticationInfoResolverWrapper
	// DeletionDelay is the delay of the custom resources' stores; see [store.Config].
	DeletionDelay time.Duration
	// Require returns the conditions for the creation of a custom resource; see [store.Options].
	Require store.Requirement
	// Transformers encrypt the stored definitions and custom resources. It may be nil.
	Transformers value.ResourceTransformers
	// Shared says that other servers may use the storage at the same time.
	Shared bool
	// Owners are the owners of decoded definitions; see [store.Options]. They may be nil.
	Owners *store.Owners
	// ForkOf, if not nil, has the custom kinds of a server over the store that Storage was forked from. The new kinds
	// share the compiled schemas of unchanged definitions.
	ForkOf *Kinds
}

// Kinds are the custom kinds of one server.
type Kinds struct {
	options  Options
	webhooks func() (*conversion.CRConverterFactory, error) // makes the conversions by webhooks
	store    *definitionStore
	status   rest.Patcher // of definitions

	ctx      context.Context // ends with Close, and with it every watch and cleanup
	cancel   context.CancelFunc
	work     sync.WaitGroup // running cleanups
	follower sync.WaitGroup

	compilations *atomic.Int64 // of rules and validations, for tests

	mu          sync.Mutex
	definitions map[string]*definition // by name, as they are stored
	checkpoint  map[string]*definition
}

// definition is a stored definition with its served kind.
type definition struct {
	crd     *apiextensions.CustomResourceDefinition // without schemas; shared with serving
	serving *serving                                // nil before it is established
	gate    *instanceGate
}

// source returns the key of a definition in the catalog.
func source(name string) string { return "crd/" + name }

// New loads the stored definitions and adds their resources to the catalog, together with the resource
// customresourcedefinitions. All other resources should already be in the catalog.
func New(o Options) (*Kinds, error) {
	if o.ServiceResolver == nil {
		o.ServiceResolver = webhook.NewDefaultServiceResolver()
	}
	webhooks := sync.OnceValues(func() (*conversion.CRConverterFactory, error) {
		return conversion.NewCRConverterFactory(o.ServiceResolver, o.WebhookAuthentication)
	})
	k := &Kinds{options: o, webhooks: webhooks, definitions: map[string]*definition{}, compilations: &atomic.Int64{}}
	k.ctx, k.cancel = context.WithCancel(request.WithNamespace(context.Background(), metav1.NamespaceNone))
	definitions, err := k.definitionsResource()
	if err != nil {
		k.cancel()
		return nil, err
	}
	resources := []*resource.Resource{definitions}
	if o.RemovedVersions {
		old, err := k.removedResource(definitions)
		if err != nil {
			k.cancel()
			return nil, err
		}
		resources = append(resources, old)
	}
	o.Catalog.Set("crd", resources...)
	if o.Shared { // before the definitions are loaded, so that none is missed
		err = k.startFollowing()
	}
	if err == nil {
		err = k.load()
	}
	if err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Close ends the watches of custom resources and the cleanups, and waits for them. The next server over the same
// storage resumes the cleanups.
func (k *Kinds) Close() {
	k.mu.Lock()
	k.cancel()
	k.mu.Unlock()
	k.follower.Wait()
	k.work.Wait()
}

// forked returns the served kind of a definition of the kinds that these are a fork of, or nil.
func (k *Kinds) forked(name string) *serving {
	of := k.options.ForkOf
	if of == nil {
		return nil
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.served(name)
}

// load serves the stored definitions.
//
//upstream:none In apiextensions-apiserver, an informer lists the definitions.
func (k *Kinds) load() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() { k.options.ForkOf = nil }() // which may be closed
	if err := k.loadPages(); err != nil {
		return fmt.Errorf("load definitions: %w", err)
	}
	groups := map[string]bool{}
	for _, d := range k.definitions {
		groups[d.crd.Spec.Group] = true
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) { // now that all names that are taken are known
		k.acceptFreedNames(k.ctx, group)
	}
	return nil
}

// loadPages serves the stored definitions. It reads few at a time, because decoded definitions are large. If another server compacts the
// storage in between, loadPages reads all of them at once. The caller holds the lock.
//
//upstream:none In apiextensions-apiserver, an informer lists the definitions.
func (k *Kinds) loadPages() error {
	page := apistorage.Everything
	page.Limit = 16
	for {
		list := &apiextensions.CustomResourceDefinitionList{}
		err := k.store.GetList(k.ctx, k.store.root, apistorage.ListOptions{Recursive: true, Predicate: page}, list)
		switch {
		case apierrors.IsResourceExpired(err) && page.Continue != "":
			page.Continue, page.Limit = "", 0
			continue
		case err != nil:
			return err
		}
		for i := range list.Items {
			k.loadOne(&list.Items[i])
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return nil
		}
	}
}

// loadOne serves a stored definition. The caller holds the lock.
func (k *Kinds) loadOne(crd *apiextensions.CustomResourceDefinition) {
	c, err := k.apply(crd)
	if err != nil {
		klog.FromContext(k.ctx).Error(err, "A stored definition cannot be served", "definition", crd.Name)
	}
	c.record(crd)
}
