//lint:file-ignore SA1019 The control plane maintains the deprecated kind Endpoints.
package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/localpath"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// blocked is a controller that is kept from a write.
type blocked struct {
	name      string // and the namespace
	operation admissionv1.OperationType
	resource  string                                                      // in the form RESOURCE.GROUP of quotas, with the subresource
	given     func(e controllerstest.Env, ns string)                      // before the writes are refused
	when      func(e controllerstest.Env, ns string, spec corev1.PodSpec) // afterwards
}

const (
	createOp = admissionv1.Create
	updateOp = admissionv1.Update
	deleteOp = admissionv1.Delete
)

// blockedControllers has each controller that creates, updates or deletes objects.
var blockedControllers = []blocked{
	{"deployment", createOp, "replicasets.apps", nil, createDeployment},
	{"deployment-pods", createOp, "pods", nil, createDeployment},
	{"deployment-scale", updateOp, "replicasets.apps", givenDeployment, scaleDeployment(2)},
	{"deployment-status", updateOp, "deployments/status.apps", nil, createDeployment},
	{"replicaset", createOp, "pods", nil, func(e controllerstest.Env, ns string, spec corev1.PodSpec) {
		e.CreateAll(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: selectX, Template: templateX(spec)}})
	}},
	{"replicaset-scale", deleteOp, "pods", givenDeployment, scaleDeployment(0)},
	{"replicaset-status", updateOp, "replicasets/status.apps", nil, createDeployment},
	{"replicationcontroller", createOp, "pods", nil, createReplicationController},
	{"replicationcontroller-status", updateOp, "replicationcontrollers/status", nil, createReplicationController},
	{"service-lb", updateOp, "services/status", nil, createLoadBalancer},
	{"ingress", updateOp, "ingresses/status.networking.k8s.io", nil, createIngress},
	{"statefulset", createOp, "pods", nil, createStatefulSet},
	{"statefulset-revisions", createOp, "controllerrevisions.apps", nil, createStatefulSet},
	{"statefulset-status", updateOp, "statefulsets/status.apps", nil, createStatefulSet},
	{"statefulset-claims", createOp, "persistentvolumeclaims", nil, createStatefulSet},
	{"daemonset", createOp, "pods", nil, createDaemonSet},
	{"daemonset-revisions", createOp, "controllerrevisions.apps", nil, createDaemonSet},
	{"daemonset-update", deleteOp, "pods", func(e controllerstest.Env, ns string) { createDaemonSet(e, ns, specX()) }, updateDaemonSet},
	{"daemonset-status", updateOp, "daemonsets/status.apps", nil, createDaemonSet},
	{"horizontal-pod-autoscaler", updateOp, "deployments/scale.apps", givenMeasured(1), createAutoscaler},
	{"horizontal-pod-autoscaler-status", updateOp, "horizontalpodautoscalers/status.autoscaling", givenMeasured(3), createAutoscaler},
	{"job", createOp, "pods", nil, createJob},
	{"job-deadline", createOp, "pods", nil, func(e controllerstest.Env, ns string, spec corev1.PodSpec) {
		spec.RestartPolicy = corev1.RestartPolicyNever
		e.CreateAll(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}, Spec: batchv1.JobSpec{
			ActiveDeadlineSeconds: new(int64(3600)), Template: corev1.PodTemplateSpec{Spec: spec}}})
	}},
	{"job-status", updateOp, "jobs/status.batch", nil, createJob},
	{"ttl-after-finished", deleteOp, "jobs.batch", nil, createJob},
	{"job-suspend", deleteOp, "pods", func(e controllerstest.Env, ns string) {
		spec := specX()
		spec.RestartPolicy = corev1.RestartPolicyNever
		e.CreateAll(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{pods.OutcomeAnnotation: pods.Running}}, Spec: spec}}})
	}, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		job := &batchv1.Job{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, job))
		job.Spec.Suspend = new(true)
		e.Must(e.Update(e.Context(), job))
	}},
	{"cronjob", createOp, "jobs.batch", nil, createCronJob},
	{"cronjob-status", updateOp, "cronjobs/status.batch", nil, createCronJob},
	{"serviceaccount", createOp, "serviceaccounts", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.Must(e.Delete(e.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}}))
	}},
	{"serviceaccount-token", updateOp, "secrets", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.CreateAll(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken})
	}},
	{"root-ca-certificate-publisher", createOp, "configmaps", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.Must(e.Delete(e.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kube-root-ca.crt"}}))
	}},
	{"endpoints", createOp, "endpoints", nil, createService},
	{"endpoints-update", updateOp, "endpoints", givenService, scaleDeployment(2)},
	{"endpointslice", createOp, "endpointslices.discovery.k8s.io", nil, createService},
	{"endpointslice-update", updateOp, "endpointslices.discovery.k8s.io", givenService, scaleDeployment(2)},
	{"endpointslice-mirroring", createOp, "endpointslices.discovery.k8s.io", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		svc := serviceX(ns)
		svc.Spec.Selector = nil
		e.CreateAll(svc, endpointsOfUser(ns))
	}},
	{"persistentvolume-expander", updateOp, "persistentvolumeclaims/status", givenElastic, growClaim},
	{"local-path-provisioner", createOp, "persistentvolumes", nil, createClaim},
	{"persistentvolume-binder", updateOp, "persistentvolumeclaims", nil, createClaim},
	{"persistentvolumeclaim-protection", updateOp, "persistentvolumeclaims", func(e controllerstest.Env, ns string) { createClaim(e, ns, specX()) },
		func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
			e.Must(e.Delete(e.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}))
			e.Must(e.Delete(e.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}))
		}},
	{"ephemeral-volume", createOp, "persistentvolumeclaims", nil, func(e controllerstest.Env, ns string, spec corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: controllerstest.Claim("", "1", "standard").Spec}}}}}
		createPod(e, ns, spec)
	}},
	{"scheduler", createOp, "pods/binding", nil, createPod},
	{"scheduler-status", updateOp, "pods/status", nil, func(e controllerstest.Env, ns string, spec corev1.PodSpec) {
		spec.NodeSelector = map[string]string{"no": "node"}
		createPod(e, ns, spec)
	}},
	{"pods", updateOp, "pods/status", nil, createPod},
	{"pod-garbage-collector", deleteOp, "pods", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.CreateAll(controllerstest.PodOn("missing", ns, "x"))
	}},
	{"taint-eviction", deleteOp, "pods", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.CreateAll(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "tainted"}, Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute}}}}, controllerstest.PodOn("tainted", ns, "x"))
	}},
	{"resourcequota", updateOp, "resourcequotas/status", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.CreateAll(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")}}})
	}},
	{"events", createOp, "events", nil, createDeployment},
	{"disruption", updateOp, "poddisruptionbudgets/status.policy", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.CreateAll(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: selectX, MinAvailable: new(intstr.FromInt32(1))}})
	}},
	{"namespace", deleteOp, "configmaps", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.Must(e.Delete(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	}},
	{"namespace-finalize", updateOp, "namespaces/finalize", nil, func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.Must(e.Delete(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	}},
	{"garbage-collector", deleteOp, "configmaps", givenDependent, deleteOwner(metav1.DeletePropagationBackground)},
	{"garbage-collector-orphans", updateOp, "configmaps", givenDependent, deleteOwner(metav1.DeletePropagationOrphan)},
	{"garbage-collector-foreground", deleteOp, "configmaps", givenDependent, deleteOwner(metav1.DeletePropagationForeground)},
}

// unblocked are the controllers that are not in the table, because they write objects that are in no namespace, in a namespace of the
// system, or after a longer time, or none at all.
var unblocked = []string{"certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller",
	"certificatesigningrequest-signing-controller", "clusterrole-aggregation-controller", "node-ipam-controller", "node-lifecycle-controller", "service-cidr-controller", "metrics-server",
	"validatingadmissionpolicy-status-controller", "storage-version-migrator-controller", "persistentvolume-protection-controller",
	"volumeattributesclass-protection-controller", "ttl-controller", "podcertificaterequest-cleaner-controller", "token-cleaner-controller",
	"bootstrap-signer-controller"}

// TestBlockedControllersAreAll: no controller that writes into namespaces is missing.
func TestBlockedControllersAreAll(t *testing.T) {
	for _, name := range controllers.Names() {
		listed := slices.ContainsFunc(blockedControllers, func(b blocked) bool { return b.name == strings.TrimSuffix(name, "-controller") })
		if listed == slices.Contains(unblocked, name) {
			t.Errorf("%s: in the table %v", name, listed)
		}
	}
}

// unlimited are resources that a quota does not limit.
var unlimited = []string{"persistentvolumes", "pods/binding"}

var selectX = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}

func templateX(spec corev1.PodSpec) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selectX.MatchLabels}, Spec: spec}
}

func specX() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}
}

func createDeployment(e controllerstest.Env, ns string, spec corev1.PodSpec) {
	e.CreateAll(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
		Spec: appsv1.DeploymentSpec{Selector: selectX, Template: templateX(spec)}})
}

func givenDeployment(e controllerstest.Env, ns string) { createDeployment(e, ns, specX()) }

// scaleDeployment scales a Deployment.
func scaleDeployment(to int32) func(controllerstest.Env, string, corev1.PodSpec) {
	return func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}
		e.Must(e.Patch(e.Context(), d, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, to))))
	}
}

func createJob(e controllerstest.Env, ns string, spec corev1.PodSpec) {
	spec.RestartPolicy = corev1.RestartPolicyNever
	e.CreateAll(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}, Spec: batchv1.JobSpec{TTLSecondsAfterFinished: new(int32(0)),
		Completions: new(int32(2)), Parallelism: new(int32(2)), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{pods.OutcomeAnnotation: pods.Succeeded}}, Spec: spec}}})
}

func createCronJob(e controllerstest.Env, ns string, spec corev1.PodSpec) {
	spec.RestartPolicy = corev1.RestartPolicyNever
	e.CreateAll(&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}, Spec: batchv1.CronJobSpec{
		Schedule:    "* * * * *",
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}}})
}

// givenService creates a Deployment and a Service that selects its pods.
func givenService(e controllerstest.Env, ns string) {
	givenDeployment(e, ns)
	e.CreateAll(serviceX(ns))
}

// givenDependent creates a Secret that owns a ConfigMap.
func givenDependent(e controllerstest.Env, ns string) {
	owner := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"}}
	e.CreateAll(owner)
	e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(owner), owner))
	e.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Secret"))}}})
}

func deleteOwner(how metav1.DeletionPropagation) func(controllerstest.Env, string, corev1.PodSpec) {
	return func(e controllerstest.Env, ns string, _ corev1.PodSpec) {
		e.Must(e.Delete(e.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"}}, client.PropagationPolicy(how)))
	}
}

func createStatefulSet(e controllerstest.Env, ns string, spec corev1.PodSpec) {
	claim := controllerstest.Claim("data", "1", "standard")
	claim.Namespace = ""
	e.CreateAll(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(2)), Selector: selectX, Template: templateX(spec), PodManagementPolicy: appsv1.ParallelPodManagement,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*claim}}})
}

func createReplicationController(e controllerstest.Env, ns string, spec corev1.PodSpec) {
	template := templateX(spec)
	e.CreateAll(&corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
		Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(3)), Template: &template}})
}

// givenMeasured creates a Deployment with requests and a known utilization.
func givenMeasured(replicas int32) func(controllerstest.Env, string) {
	return func(e controllerstest.Env, ns string) {
		spec := specX()
		spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2m")}
		e.CreateAll(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selectX, Template: templateX(spec)}})
	}
}

func createAutoscaler(e controllerstest.Env, ns string, _ corev1.PodSpec) {
	e.CreateAll(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "x"}, MinReplicas: new(int32(3)), MaxReplicas: 5}})
}

func createDaemonSet(e controllerstest.Env, ns string, spec corev1.PodSpec) {
	e.CreateAll(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
		Spec: appsv1.DaemonSetSpec{Selector: selectX, Template: templateX(spec)}})
}

func updateDaemonSet(e controllerstest.Env, ns string, _ corev1.PodSpec) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}
	e.Must(e.Patch(e.Context(), set, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`))))
}

func serviceX(ns string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
		Spec: corev1.ServiceSpec{Selector: selectX.MatchLabels, Ports: []corev1.ServicePort{{Port: 80}}}}
}

func createService(e controllerstest.Env, ns string, _ corev1.PodSpec) { e.CreateAll(serviceX(ns)) }

func createPod(e controllerstest.Env, ns string, spec corev1.PodSpec) {
	e.CreateAll(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}, Spec: spec})
}

func createClaim(e controllerstest.Env, ns string, spec corev1.PodSpec) {
	claim := controllerstest.Claim("x", "1", "standard")
	claim.Namespace = ns
	e.CreateAll(claim)
	spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}}}
	createPod(e, ns, spec)
}

// maxRevisions and maxEvents are what a controller may cause in a minute. The status of a terminating namespace has the errors of each
// attempt, and a StatefulSet records two events for each.
const maxRevisions, maxEvents = 16, 25

// TestBlockedControllers blocks the writes of controllers for a minute. A controller backs off after failures, and its status does not
// change with the error.
func TestBlockedControllers(t *testing.T) {
	refused := func(host string) func(controllerstest.Env, *webhooks, blocked) {
		return func(e controllerstest.Env, hooks *webhooks, b blocked) {
			name, group, _ := strings.Cut(b.resource, ".")
			e.CreateAll(hooks.configuration(host, b.name, admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{b.operation},
				Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{name}}}))
		}
	}
	createsPods := func(b blocked) bool { return b.operation == createOp && b.resource == "pods" }
	for _, tt := range []struct {
		name    string
		applies func(blocked) bool
		block   func(controllerstest.Env, *webhooks, blocked)
		spec    func(*corev1.PodSpec)
	}{
		{"quota exceeded", func(b blocked) bool { return b.operation == createOp && !slices.Contains(unlimited, b.resource) },
			func(e controllerstest.Env, _ *webhooks, b blocked) {
				e.CreateAll(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "q"}, Spec: corev1.ResourceQuotaSpec{
					Hard: corev1.ResourceList{corev1.ResourceName("count/" + b.resource): resource.MustParse("0")}}})
			}, nil},
		{"pod security", createsPods, func(e controllerstest.Env, _ *webhooks, b blocked) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.name}}
			patch := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`
			e.Must(e.Patch(e.Context(), ns, client.RawPatch("application/merge-patch+json", []byte(patch))))
		}, nil},
		{"a webhook that denies", func(blocked) bool { return true }, refused(denies), nil},
		{"a webhook that times out", func(blocked) bool { return true }, refused(timesOut), nil},
		{"an invalid template", createsPods, func(controllerstest.Env, *webhooks, blocked) {}, func(s *corev1.PodSpec) { s.ServiceAccountName = "missing" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hooks := serveWebhooks(t)
				controllerstest.WithPlane(t, controlplane.Options{DialWebhook: hooks.dial, Logger: controllerstest.Quiet(t)}, func(e controllerstest.Env) {
					all := checkBlocked(e, tt.applies, func(b blocked) { tt.block(e, hooks, b) }, tt.spec)
					for _, b := range all {
						if n := hooks.denied(b.name); tt.name == "a webhook that denies" && n < 4 { // an autoscaler tries every 15 seconds
							t.Errorf("%s has tried %d times", b.name, n)
						}
					}
				})
			})
		})
	}
}

// checkBlocked blocks the controllers to which that applies, each in a namespace of its own, and returns them.
func checkBlocked(e controllerstest.Env, applies func(blocked) bool, block func(blocked), change func(*corev1.PodSpec)) (all []blocked) {
	e.Helper()
	for _, b := range blockedControllers {
		if applies(b) {
			all = append(all, b)
			e.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.name}})
		}
	}
	e.WaitIdle()
	for _, b := range all {
		if b.given != nil {
			b.given(e, b.name)
		}
	}
	e.WaitIdle()
	for _, b := range all {
		block(b)
	}
	e.WaitIdle()
	spec := specX()
	if change != nil {
		change(&spec)
	}
	revisions := e.CountRevisions()
	defer revisions.Stop()
	for _, b := range all {
		b.when(e, b.name, spec)
	}
	revisions.Wait(time.Minute)
	for _, namespace := range revisions.Namespaces() {
		if events, others, kinds := revisions.In(namespace); events > maxEvents || others > maxRevisions {
			e.Errorf("too many revisions in the namespace %q: %s", namespace, kinds)
		}
	}
	return all
}

// endpointsOfUser returns the Endpoints of a Service without a selector.
func endpointsOfUser(namespace string) client.Object {
	//lint:ignore SA1019 The controller mirrors Endpoints.
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}}
	//lint:ignore SA1019 The controller mirrors Endpoints.
	endpoints.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.1.2.3"}}, Ports: []corev1.EndpointPort{{Port: 80}}}}
	return endpoints
}

func createLoadBalancer(e controllerstest.Env, ns string, _ corev1.PodSpec) {
	e.CreateAll(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}})
}

func createIngress(e controllerstest.Env, ns string, _ corev1.PodSpec) {
	e.CreateAll(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}}}})
}

func givenElastic(e controllerstest.Env, ns string) {
	claim := controllerstest.Claim("x", "1Gi", "elastic")
	claim.Namespace = ns
	e.CreateAll(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "elastic"}, Provisioner: localpath.Provisioner, AllowVolumeExpansion: new(true)}, claim)
	e.WaitIdle()
}

func growClaim(e controllerstest.Env, ns string, _ corev1.PodSpec) {
	claim := &corev1.PersistentVolumeClaim{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, claim))
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	e.Must(e.Update(e.Context(), claim))
}
