package builtin

import (
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"flyball.dev/apiserver/kinds/autoscaling"
	"flyball.dev/apiserver/kinds/batch"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/kinds/policy"
)

// Scheme returns the scheme of all built-in kinds, with their defaults. The caller must not change it.
var Scheme = sync.OnceValue(newScheme)

// Codecs returns the codecs of the types in [Scheme]. They encode lists as streams.
var Codecs = sync.OnceValue(func() serializer.CodecFactory {
	return serializer.NewCodecFactory(Scheme(),
		serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf())
})

// newScheme returns a scheme with the types, defaults and conversions of all built-in kinds.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme,
		apiextensionsv1.AddToScheme, // served by apiserver/crd, described like the others
		apiregistrationv1.AddToScheme,
		appsv1.AddToScheme,
		authenticationv1.AddToScheme,
		authorizationv1.AddToScheme,
		autoscalingv1.AddToScheme,
		autoscalingv2.AddToScheme,
		batchv1.AddToScheme,
		certificatesv1.AddToScheme,
		coordinationv1.AddToScheme,
		corev1.AddToScheme,
		discoveryv1.AddToScheme,
		eventsv1.AddToScheme,
		flowcontrolv1.AddToScheme,
		metricsv1beta1.AddToScheme,
		networkingv1.AddToScheme,
		nodev1.AddToScheme,
		policyv1.AddToScheme,
		rbacv1.AddToScheme,
		resourcev1.AddToScheme,
		schedulingv1.AddToScheme,
		storagev1.AddToScheme,
		storagemigrationv1.AddToScheme,
		core.ConvertEvents,
		core.ConvertQueries,
		autoscaling.Convert,
		batch.AddRemoved,
		policy.AddRemoved,
	} {
		utilruntime.Must(add(scheme))
	}
	for _, kind := range All(Options{RemovedVersions: true}) {
		kind.Register(scheme)
	}
	return scheme
}

// StorageCodec writes objects of a built-in group as protobuf in their storage version, and reads any encoding.
func StorageCodec(group schema.GroupResource) runtime.Codec {
	codecs := Codecs()
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	versions := schema.GroupVersions(Scheme().PrioritizedVersionsForGroup(group.Group))
	return codecs.CodecForVersions(info.Serializer, codecs.UniversalDeserializer(), versions, versions)
}
