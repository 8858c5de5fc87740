// Package crd serves CustomResourceDefinitions and the custom resources that they define.
//
// A definition takes effect with the write that makes it: when a create or an update returns, its names
// are accepted or refused, its conditions say so, and what it serves is in the catalog. Nothing is
// polled and nothing is waited for.
//
// Names are given out, definitions stored and the catalog changed under one lock, so all readers of the
// catalog see them change in the order of the writes. The only goroutines are those that empty the
// resources of deleted definitions; there are none when nothing is being deleted.
//
// Several servers over one store must share one [Kinds]: a definition that another process writes is
// noticed only at the next start.
package crd

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver/resource"
	"flyball.dev/storage"
)

// Options are what custom kinds need from the server around them.
type Options struct {
	// Storage keeps the definitions and the custom resources.
	Storage storage.Store
	// Catalog gets the definitions' own resource and those that they define. The names of what else
	// is in it, in a definition's group, cannot be taken by the definition.
	Catalog *resource.Catalog
	// Authorizer is asked by handlers that check a second permission.
	Authorizer authorizer.UnconditionalAuthorizer
	// MaxRequestBodyBytes bounds a request's body; zero is no bound.
	MaxRequestBodyBytes int64
	// ServiceResolver finds the services that conversion webhooks name; by default by their DNS names.
	ServiceResolver webhook.ServiceResolver
	// WebhookAuthentication says how the server authenticates to conversion webhooks; it may be nil.
	WebhookAuthentication webhook.AuthenticationInfoResolverWrapper
}

// Kinds are the custom kinds of one server.
type Kinds struct {
	options    Options
	convertors *conversion.CRConverterFactory
	store      *definitionStore
	status     rest.Patcher // of definitions

	ctx    context.Context // ends with Close, and with it every watch and cleanup
	cancel context.CancelFunc
	work   sync.WaitGroup // the cleanups under way

	mu          sync.Mutex
	definitions map[string]*definition // by name, as they are stored
}

// definition is one stored definition and what is served of it.
type definition struct {
	crd     *apiextensions.CustomResourceDefinition // shared with serving
	serving *serving                                // nil before it is established
	gate    *instanceGate
}

// source names a definition's contribution to the catalog.
func source(name string) string { return "crd/" + name }

// New loads the stored definitions and puts what they define into the catalog, together with the
// customresourcedefinitions resource itself. What else the server serves should be there already.
func New(o Options) (*Kinds, error) {
	if o.ServiceResolver == nil {
		o.ServiceResolver = webhook.NewDefaultServiceResolver()
	}
	convertors, err := conversion.NewCRConverterFactory(o.ServiceResolver, o.WebhookAuthentication)
	if err != nil {
		return nil, fmt.Errorf("conversion webhooks: %w", err)
	}
	k := &Kinds{options: o, convertors: convertors, definitions: map[string]*definition{}}
	k.ctx, k.cancel = context.WithCancel(request.WithNamespace(context.Background(), metav1.NamespaceNone))
	definitions, err := k.definitionsResource()
	if err != nil {
		k.cancel()
		return nil, err
	}
	o.Catalog.Set("crd", definitions)
	if err := k.load(); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Close ends every watch of custom resources and every cleanup under way, which the next server over
// the same storage takes up again. It returns when they have ended.
func (k *Kinds) Close() {
	k.mu.Lock()
	k.cancel()
	k.mu.Unlock()
	k.work.Wait()
}

// load takes up the definitions found in storage.
func (k *Kinds) load() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := &apiextensions.CustomResourceDefinitionList{}
	if err := k.store.GetList(k.ctx, k.store.root, apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything}, list); err != nil {
		return fmt.Errorf("load definitions: %w", err)
	}
	for i := range list.Items {
		crd := &list.Items[i]
		c, err := k.apply(crd)
		if err != nil {
			klog.FromContext(k.ctx).Error(err, "A stored definition cannot be served", "definition", crd.Name)
		}
		c.commit(k.ctx, crd)
	}
	return nil
}
