package validation

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/fake"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/resolver"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	csr "k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/certificates/clustertrustbundle"
	"k8s.io/kubernetes/pkg/registry/certificates/podcertificaterequest"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"
	"k8s.io/kubernetes/pkg/registry/storagemigration/storagemigration"
	"k8s.io/utils/clock"

	_ "flyball.dev/test/mirror/install"

	"flyball.dev/apiserver/builtin/strategytest"
)

// upstreamStrategies returns the strategies that kube-apiserver registers for each resource.
func upstreamStrategies() map[schema.GroupResource]strategytest.Strategies {
	claims := resourceclaim.NewStrategy(namespaces(), allowed{})
	certificates := podcertificaterequest.NewStrategy()
	validatingPolicies := validatingadmissionpolicy.NewStrategy(allowed{}, resolve)
	apiServices := apiservice.NewStrategy(aggregatorscheme.Scheme)
	at := func(group, resource string) schema.GroupResource {
		return schema.GroupResource{Group: group, Resource: resource}
	}
	return map[schema.GroupResource]strategytest.Strategies{
		at("", "configmaps"):             {"": configmap.Strategy},
		at("", "endpoints"):              {"": endpoint.Strategy},
		at("", "events"):                 {"": event.Strategy},
		at("", "limitranges"):            {"": limitrange.Strategy},
		at("", "namespaces"):             {"": namespace.Strategy, "status": namespace.StatusStrategy, "finalize": namespace.FinalizeStrategy},
		at("", "nodes"):                  {"": node.Strategy, "status": node.StatusStrategy},
		at("", "persistentvolumes"):      {"": persistentvolume.Strategy, "status": persistentvolume.StatusStrategy},
		at("", "persistentvolumeclaims"): {"": persistentvolumeclaim.Strategy, "status": persistentvolumeclaim.StatusStrategy},
		at("", "pods"): {"": pod.Strategy, "status": pod.StatusStrategy,
			"ephemeralcontainers": pod.EphemeralContainersStrategy, "resize": pod.ResizeStrategy},
		at("", "podtemplates"):           {"": podtemplate.Strategy},
		at("", "replicationcontrollers"): {"": replicationcontroller.Strategy, "status": replicationcontroller.StatusStrategy},
		at("", "resourcequotas"):         {"": resourcequota.Strategy, "status": resourcequota.StatusStrategy},
		at("", "secrets"):                {"": secret.Strategy},
		at("", "services"):               {"": service.Strategy, "status": service.StatusStrategy},
		at("", "serviceaccounts"):        {"": serviceaccount.Strategy},

		at("admissionregistration.k8s.io", "mutatingadmissionpolicies"):         {"": mutatingadmissionpolicy.NewStrategy(allowed{}, resolve)},
		at("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"):   {"": mutatingadmissionpolicybinding.NewStrategy(allowed{}, noPolicies{}, resolve)},
		at("admissionregistration.k8s.io", "mutatingwebhookconfigurations"):     {"": mutatingwebhookconfiguration.Strategy},
		at("admissionregistration.k8s.io", "validatingadmissionpolicies"):       {"": validatingPolicies, "status": validatingadmissionpolicy.NewStatusStrategy(validatingPolicies)},
		at("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): {"": validatingadmissionpolicybinding.NewStrategy(allowed{}, noPolicies{}, resolve)},
		at("admissionregistration.k8s.io", "validatingwebhookconfigurations"):   {"": validatingwebhookconfiguration.Strategy},

		at("apiregistration.k8s.io", "apiservices"): {"": apiServices, "status": apiservice.NewStatusStrategy(aggregatorscheme.Scheme)},

		at("apps", "controllerrevisions"): {"": controllerrevision.Strategy},
		at("apps", "daemonsets"):          {"": daemonset.Strategy, "status": daemonset.StatusStrategy},
		at("apps", "deployments"):         {"": deployment.Strategy, "status": deployment.StatusStrategy},
		at("apps", "replicasets"):         {"": replicaset.Strategy, "status": replicaset.StatusStrategy},
		at("apps", "statefulsets"):        {"": statefulset.Strategy, "status": statefulset.StatusStrategy},

		at("autoscaling", "horizontalpodautoscalers"): {"": horizontalpodautoscaler.Strategy, "status": horizontalpodautoscaler.StatusStrategy},
		at("batch", "cronjobs"):                       {"": cronjob.Strategy, "status": cronjob.StatusStrategy},
		at("batch", "jobs"):                           {"": job.Strategy, "status": job.StatusStrategy},

		at("certificates.k8s.io", "certificatesigningrequests"): {"": csr.Strategy, "status": csr.StatusStrategy, "approval": csr.ApprovalStrategy},
		at("certificates.k8s.io", "clustertrustbundles"):        {"": clustertrustbundle.Strategy},
		at("certificates.k8s.io", "podcertificaterequests"): {"": certificates,
			"status": podcertificaterequest.NewStatusStrategy(certificates, allowed{}, clock.RealClock{})},
		at("coordination.k8s.io", "leases"):        {"": lease.Strategy},
		at("discovery.k8s.io", "endpointslices"):   {"": endpointslice.Strategy},
		at("events.k8s.io", "events"):              {"": event.Strategy},
		at("node.k8s.io", "runtimeclasses"):        {"": runtimeclass.Strategy},
		at("policy", "poddisruptionbudgets"):       {"": poddisruptionbudget.Strategy, "status": poddisruptionbudget.StatusStrategy},
		at("scheduling.k8s.io", "priorityclasses"): {"": priorityclass.Strategy},

		at("flowcontrol.apiserver.k8s.io", "flowschemas"):                 {"": flowschema.Strategy, "status": flowschema.StatusStrategy},
		at("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): {"": prioritylevelconfiguration.Strategy, "status": prioritylevelconfiguration.StatusStrategy},

		at("networking.k8s.io", "ingresses"):       {"": ingress.Strategy, "status": ingress.StatusStrategy},
		at("networking.k8s.io", "ingressclasses"):  {"": ingressclass.Strategy},
		at("networking.k8s.io", "ipaddresses"):     {"": ipaddress.Strategy},
		at("networking.k8s.io", "networkpolicies"): {"": networkpolicy.Strategy},
		at("networking.k8s.io", "servicecidrs"):    {"": servicecidr.Strategy, "status": servicecidr.StatusStrategy},

		at("rbac.authorization.k8s.io", "clusterrolebindings"): {"": clusterrolebinding.Strategy},
		at("rbac.authorization.k8s.io", "clusterroles"):        {"": clusterrole.Strategy},
		at("rbac.authorization.k8s.io", "rolebindings"):        {"": rolebinding.Strategy},
		at("rbac.authorization.k8s.io", "roles"):               {"": role.Strategy},

		at("resource.k8s.io", "deviceclasses"):          {"": deviceclass.Strategy},
		at("resource.k8s.io", "devicetaintrules"):       {"": devicetaintrule.Strategy, "status": devicetaintrule.StatusStrategy},
		at("resource.k8s.io", "resourceclaims"):         {"": claims, "status": resourceclaim.NewStatusStrategy(claims)},
		at("resource.k8s.io", "resourceclaimtemplates"): {"": resourceclaimtemplate.NewStrategy(namespaces())},
		at("resource.k8s.io", "resourceslices"):         {"": resourceslice.Strategy},

		at("storage.k8s.io", "csidrivers"):              {"": csidriver.Strategy},
		at("storage.k8s.io", "csinodes"):                {"": csinode.Strategy, "status": csinode.StatusStrategy},
		at("storage.k8s.io", "csistoragecapacities"):    {"": csistoragecapacity.Strategy},
		at("storage.k8s.io", "storageclasses"):          {"": storageclass.Strategy},
		at("storage.k8s.io", "volumeattachments"):       {"": volumeattachment.Strategy, "status": volumeattachment.StatusStrategy},
		at("storage.k8s.io", "volumeattributesclasses"): {"": volumeattributesclass.Strategy},

		at("storagemigration.k8s.io", "storageversionmigrations"): {"": storagemigration.Strategy, "status": storagemigration.StatusStrategy},
	}
}

// upstreamScheme returns the scheme with the internal version of a group.
func upstreamScheme(group string) *runtime.Scheme {
	if group == "apiregistration.k8s.io" {
		return aggregatorscheme.Scheme
	}
	return legacyscheme.Scheme
}

// namespaces returns a client for the namespace of the objects.
func namespaces() typedcore.NamespaceInterface {
	return fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: strategytest.Namespace}}).CoreV1().Namespaces()
}

// allowed permits everything.
type allowed struct{}

func (allowed) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

func (allowed) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(allowed{}.Authorize(ctx, a))
}

func (allowed) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// noPolicies has no admission policies, so that a binding may name any.
type noPolicies struct{}

func (noPolicies) GetMutatingAdmissionPolicy(context.Context, string) (*admissionregistration.MutatingAdmissionPolicy, error) {
	return nil, errors.New("not found")
}

func (noPolicies) GetValidatingAdmissionPolicy(context.Context, string) (*admissionregistration.ValidatingAdmissionPolicy, error) {
	return nil, errors.New("not found")
}

// resolve finds a resource for each kind.
var resolve = resolver.ResourceResolverFunc(func(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	return gvk.GroupVersion().WithResource(gvk.Kind), nil
})
