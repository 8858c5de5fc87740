package admission

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
)

// namespaces gives upstream's plugins access to namespaces: as a lister, as an informer and as a
// clientset. All of them read from the store.
type namespaces struct{ *stored[*corev1.Namespace] }

func newNamespaces(o Objects) namespaces {
	return namespaces{newStored[*corev1.Namespace](o, corev1.SchemeGroupVersion.WithResource("namespaces"))}
}

// namespaceLister is a lister of namespaces that is never stale.
type namespaceLister struct{ namespaces }

// Get implements [corelisters.NamespaceLister].
func (l namespaceLister) Get(name string) (*corev1.Namespace, error) {
	return l.get(context.Background(), "", name)
}

// List implements [corelisters.NamespaceLister].
func (l namespaceLister) List(selector labels.Selector) (list []*corev1.Namespace, err error) {
	return list, l.each(context.Background(), "", func(n *corev1.Namespace) {
		if selector.Matches(labels.Set(n.Labels)) {
			list = append(list, n)
		}
	})
}

// namespaceInformer is the informer of [informerFactory].
type namespaceInformer struct {
	coreinformers.TypedNamespaceInformer
	namespaces namespaces
}

func (i namespaceInformer) Informer() cache.SharedIndexInformer { return syncedInformer{} }

func (i namespaceInformer) Lister() corelisters.NamespaceLister {
	return namespaceLister{i.namespaces}
}

// syncedInformer is asked for nothing but whether it has synced.
type syncedInformer struct{ cache.SharedIndexInformer }

func (syncedInformer) HasSynced() bool { return true }

// clientset has the client of namespaces, and no other.
type clientset struct {
	kubernetes.Interface
	namespaces namespaces
}

func (c clientset) CoreV1() coreclient.CoreV1Interface { return coreV1Client{namespaces: c.namespaces} }

// coreV1Client is the core client of the plugins, which read namespaces only.
type coreV1Client struct {
	coreclient.CoreV1Interface
	namespaces namespaces
}

func (c coreV1Client) Namespaces() coreclient.NamespaceInterface {
	return namespaceClient{namespaces: c.namespaces}
}

// namespaceClient reads namespaces from the store.
type namespaceClient struct {
	coreclient.NamespaceInterface
	namespaces namespaces
}

func (c namespaceClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return c.namespaces.get(ctx, "", name)
}

// informerFactory has the informers that upstream's plugins use. It stands for one of client-go,
// whose informers would run goroutines and be stale for moments.
type informerFactory struct {
	informers.SharedInformerFactory
	namespaces namespaces
	mutating   cache.SharedIndexInformer // of webhook configurations; either may be nil
	validating cache.SharedIndexInformer
}

func (f informerFactory) Core() core.Interface { return coreInformers{namespaces: f.namespaces} }

func (f informerFactory) Admissionregistration() admissionregistration.Interface {
	return admissionInformers{factory: f}
}

// coreInformers are the core informers of the plugins, which use those of namespaces only.
type coreInformers struct {
	core.Interface
	namespaces namespaces
}

func (c coreInformers) V1() coreinformers.Interface { return coreV1Informers{namespaces: c.namespaces} }

// coreV1Informers are coreInformers of version v1.
type coreV1Informers struct {
	coreinformers.Interface
	namespaces namespaces
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
