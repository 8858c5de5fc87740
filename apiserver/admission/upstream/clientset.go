package upstream

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	admissionregistration "k8s.io/client-go/informers/admissionregistration"
	admissionregistrationv1 "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/admissionregistration/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"flyball.dev/apiserver/admission/stored"
)

// namespaceLister is a [corelisters.NamespaceLister] that reads from the store.
type namespaceLister struct{ stored.Namespaces }

// Get implements [corelisters.NamespaceLister].
func (l namespaceLister) Get(name string) (*corev1.Namespace, error) {
	return l.Namespaces.Get(context.Background(), "", name)
}

// List implements [corelisters.NamespaceLister].
func (l namespaceLister) List(selector labels.Selector) (list []*corev1.Namespace, err error) {
	return list, l.Each(context.Background(), "", func(n *corev1.Namespace) {
		if selector.Matches(labels.Set(n.Labels)) {
			list = append(list, n)
		}
	})
}

// namespaceInformer is the informer of [informerFactory].
type namespaceInformer struct {
	coreinformers.TypedNamespaceInformer
	namespaces stored.Namespaces
}

func (i namespaceInformer) Informer() cache.SharedIndexInformer { return syncedInformer{} }

func (i namespaceInformer) Lister() corelisters.NamespaceLister {
	return namespaceLister{i.namespaces}
}

// syncedInformer is an informer that has synced. Plugins call no other method of it.
type syncedInformer struct{ cache.SharedIndexInformer }

func (syncedInformer) HasSynced() bool { return true }

// newClientset returns a clientset that can only get namespaces.
func newClientset(n stored.Namespaces) kubernetes.Interface { return clientset{namespaces: n} }

// clientset implements [kubernetes.Interface] for [newClientset].
type clientset struct {
	kubernetes.Interface
	namespaces stored.Namespaces
}

func (c clientset) CoreV1() coreclient.CoreV1Interface { return coreV1Client{namespaces: c.namespaces} }

// coreV1Client is the core client of the plugins, which read namespaces only.
type coreV1Client struct {
	coreclient.CoreV1Interface
	namespaces stored.Namespaces
}

func (c coreV1Client) Namespaces() coreclient.NamespaceInterface {
	return namespaceClient{namespaces: c.namespaces}
}

// namespaceClient reads namespaces from the store.
type namespaceClient struct {
	coreclient.NamespaceInterface
	namespaces stored.Namespaces
}

func (c namespaceClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return c.namespaces.Get(ctx, "", name)
}

// newInformerFactory returns a factory of the informers that the webhook plugins of k8s.io/apiserver use: the informers
// of namespaces and of webhook configurations. Either informer of configurations may be nil.
func newInformerFactory(n stored.Namespaces, mutating, validating cache.SharedIndexInformer) informers.SharedInformerFactory {
	return informerFactory{namespaces: n, mutating: mutating, validating: validating}
}

// informerFactory replaces client-go's factory, because client-go's informers run goroutines and lag behind the store.
type informerFactory struct {
	informers.SharedInformerFactory
	namespaces stored.Namespaces
	mutating   cache.SharedIndexInformer // of webhook configurations
	validating cache.SharedIndexInformer
}

func (f informerFactory) Core() core.Interface { return coreInformers{namespaces: f.namespaces} }

func (f informerFactory) Admissionregistration() admissionregistration.Interface {
	return admissionInformers{factory: f}
}

// coreInformers are the core informers, with namespaces only.
type coreInformers struct {
	core.Interface
	namespaces stored.Namespaces
}

func (c coreInformers) V1() coreinformers.Interface { return coreV1Informers{namespaces: c.namespaces} }

// coreV1Informers are coreInformers of version v1.
type coreV1Informers struct {
	coreinformers.Interface
	namespaces stored.Namespaces
}

func (c coreV1Informers) Namespaces() coreinformers.TypedNamespaceInformer {
	return namespaceInformer{namespaces: c.namespaces}
}

// admissionInformers are the informers of webhook configurations.
type admissionInformers struct {
	admissionregistration.Interface
	factory informerFactory
}

func (a admissionInformers) V1() admissionregistrationv1.Interface {
	return admissionV1Informers{factory: a.factory}
}

// admissionV1Informers are admissionInformers of version v1.
type admissionV1Informers struct {
	admissionregistrationv1.Interface
	factory informerFactory
}

func (a admissionV1Informers) MutatingWebhookConfigurations() admissionregistrationv1.TypedMutatingWebhookConfigurationInformer {
	return mutatingConfigurations{informer: a.factory.mutating}
}

func (a admissionV1Informers) ValidatingWebhookConfigurations() admissionregistrationv1.TypedValidatingWebhookConfigurationInformer {
	return validatingConfigurations{informer: a.factory.validating}
}

// mutatingConfigurations is the informer of MutatingWebhookConfigurations.
type mutatingConfigurations struct {
	admissionregistrationv1.TypedMutatingWebhookConfigurationInformer
	informer cache.SharedIndexInformer
}

func (c mutatingConfigurations) Informer() cache.SharedIndexInformer { return c.informer }

func (c mutatingConfigurations) Lister() listers.MutatingWebhookConfigurationLister {
	return listers.NewMutatingWebhookConfigurationLister(c.informer.GetIndexer())
}

// validatingConfigurations is the informer of ValidatingWebhookConfigurations.
type validatingConfigurations struct {
	admissionregistrationv1.TypedValidatingWebhookConfigurationInformer
	informer cache.SharedIndexInformer
}

func (c validatingConfigurations) Informer() cache.SharedIndexInformer { return c.informer }

func (c validatingConfigurations) Lister() listers.ValidatingWebhookConfigurationLister {
	return listers.NewValidatingWebhookConfigurationLister(c.informer.GetIndexer())
}
