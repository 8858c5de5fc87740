//lint:file-ignore SA1019 The control plane maintains the deprecated kind Endpoints.
package controllers_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/controllers"
	"flyball.dev/controllers/localpath"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// auditTrail is an audit log in memory.
type auditTrail struct {
	*testing.T
	mu     sync.Mutex
	events []auditv1.Event
}

func (a *auditTrail) Write(line []byte) (int, error) {
	var e auditv1.Event
	if err := json.Unmarshal(line, &e); err != nil {
		a.Errorf("%s: %v", line, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
	return len(line), nil
}

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// options returns the options of an audit log that is written to a.
func (a *auditTrail) options() auditlog.Options {
	a.Helper()
	policy := filepath.Join(a.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		a.Fatal(err)
	}
	return auditlog.Options{PolicyFile: policy, Writer: a}
}

// administrator is the user of the tests' clients.
const administrator = "flyball-admin"

// TestIdentities: each controller writes as the user that its counterpart on a cluster is, and its role
// suffices for all that it does, in each mode that has RBAC.
func TestIdentities(t *testing.T) {
	for _, mode := range []string{"RBAC", "Node,RBAC"} {
		t.Run(mode, func(t *testing.T) {
			trail := &auditTrail{T: t}
			o := controlplane.Options{AuthorizationMode: mode, Audit: trail.options(),
				Controllers: controllers.Options{With: []string{"bootstrap-signer-controller", "token-cleaner-controller"}}}
			controllerstest.WithControlPlane(t, o, func(e controllerstest.Env) {
				exerciseControllers(e)
				uids := map[string]string{}
				accounts := &corev1.ServiceAccountList{}
				e.Must(e.List(e.Context(), accounts, client.InNamespace("kube-system")))
				for _, a := range accounts.Items {
					uids["system:serviceaccount:kube-system:"+a.Name] = string(a.UID)
				}
				trail.check(uids)
			})
		})
	}
}

// check checks who has made the requests.
func (a *auditTrail) check(uids map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wrote, agents := map[string]bool{administrator: false}, map[string]string{}
	for _, name := range controllers.Names() {
		id, _ := controllers.IdentityOf(name)
		wrote[id.User], agents[id.User] = false, id.UserAgent
	}
	for _, event := range a.events {
		who := event.User.Username
		if _, ok := wrote[who]; !ok && who != controllers.ManagerIdentity.User {
			a.Errorf("%s %s by %s", event.Verb, event.RequestURI, who)
		}
		if who != administrator && event.Annotations["authorization.k8s.io/decision"] != "allow" {
			a.Errorf("%s was not allowed to %s %s", who, event.Verb, event.RequestURI)
		}
		if agent := agents[who]; agent != "" && event.UserAgent != agent {
			a.Errorf("the user agent of %s is %q", who, event.UserAgent)
		}
		if strings.HasPrefix(who, "system:serviceaccount:") &&
			(uids[who] == "" || event.User.UID != uids[who] || !slices.Contains(event.User.Groups, "system:serviceaccounts:kube-system")) {
			a.Fatalf("%s is %+v, and its account has the UID %q", who, event.User, uids[who])
		}
		if slices.Contains(event.User.Groups, "system:masters") && who != administrator {
			a.Errorf("%s is a member of system:masters", who)
		}
		if !slices.Contains([]string{"get", "list", "watch"}, event.Verb) && event.ObjectRef.Resource != "events" {
			wrote[who] = true
		}
	}
	for who, ok := range wrote {
		if !ok {
			a.Errorf("%s has written nothing", who)
		}
	}
}

// exerciseControllers creates, changes and deletes objects that each controller acts on.
func exerciseControllers(e controllerstest.Env) {
	e.Helper()
	migration := &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "configmaps"}}
	migration.Spec.Resource.Resource = "configmaps"
	e.CreateAll(migration)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	ttl := int32(0)
	job := controllerstest.Job(1, nil)
	job.Spec.TTLSecondsAfterFinished = &ttl
	token := &corev1.Secret{ObjectMeta: meta("token"), Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	most := intstr.FromInt32(1)
	class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, DriverName: "example.com", Parameters: map[string]string{"a": "b"}}
	volume, cidr := controllerstest.Volume("spare", "1Gi", "none"), &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.50.0.0/24"}}}
	request := kubeletRequest(e)
	doomed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
	agents := controllerstest.Template("agent")
	agents.Labels = map[string]string{"app": "agent"}
	elastic := controllerstest.Claim("elastic", "1Gi", "elastic")
	e.CreateAll(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "elastic"}, Provisioner: localpath.Provisioner, AllowVolumeExpansion: new(true)}, elastic,
		&corev1.Service{ObjectMeta: meta("balanced"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}},
		&networkingv1.Ingress{ObjectMeta: meta("in"), Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "balanced", Port: networkingv1.ServiceBackendPort{Number: 80}}}}})
	e.CreateAll(
		&appsv1.DaemonSet{ObjectMeta: meta("agent"), Spec: appsv1.DaemonSetSpec{Template: agents, Selector: &metav1.LabelSelector{MatchLabels: agents.Labels}}},
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta("web"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "ReplicationController", Name: "legacy"}, MinReplicas: new(int32(2)), MaxReplicas: 2}},
		&corev1.ReplicationController{ObjectMeta: meta("legacy"), Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "legacy"}}, Spec: agents.Spec}}},
		doomed, controllerstest.Deployment(2, "a"), controllerstest.Service(), job, controllerstest.CronJob("* * * * *", nil), token, class, volume, cidr, request,
		controllerstest.StatefulSet(1, "a", controllerstest.WithClaims(appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)),
		&policyv1.PodDisruptionBudget{ObjectMeta: meta("most"), Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &most, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
		&corev1.ResourceQuota{ObjectMeta: meta("quota"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": controllerstest.Volume("", "100", "").Spec.Capacity["storage"]}}},
		&corev1.Service{ObjectMeta: meta("manual"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		//lint:ignore SA1019 a controller mirrors it
		&corev1.Endpoints{ObjectMeta: meta("manual"), Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}, Ports: []corev1.EndpointPort{{Port: 80}}}}},
		exemptingPolicy("nobody"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: corev1.NodeSpec{Unschedulable: true}},
		controllerstest.PodOn("missing", "default", "orphan"),
		controllerstest.Pod("ephemeral", "a", func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: controllerstest.Claim("", "1Gi", "standard").Spec}}}}}
		}),
	)
	exerciseTokens(e)
	e.CreateAll(e.PodCertificateRequest("old"))
	e.WaitIdle()
	e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(elastic), elastic))
	elastic.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	e.Must(e.Update(e.Context(), elastic))
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"})
	e.Must(e.SubResource("approval").Update(e.Context(), request))
	time.Sleep(16 * time.Minute) // virtual: a CronJob is due, and orphaned pods and old requests are deleted
	for _, o := range []client.Object{doomed, controllerstest.Deployment(2, "a"), class, volume, cidr,
		controllerstest.StatefulSet(1, "a")} {
		e.Must(e.Delete(e.Context(), o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	time.Sleep(time.Minute)
	for _, o := range []client.Object{doomed, controllerstest.Deployment(2, "a"), class, volume, cidr, controllerstest.StatefulSet(1, "a"), controllerstest.PodOn("", "default", "orphan")} {
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			e.Errorf("%T %s still exists: %v", o, o.GetName(), err)
		}
	}
}

// exerciseTokens creates a bootstrap token that expires, and the ConfigMap that it signs.
func exerciseTokens(e controllerstest.Env) {
	e.Helper()
	e.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: map[string]string{"kubeconfig": "x"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
			StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
				"expiration": time.Now().Add(time.Minute).Format(time.RFC3339)}})
}

// kubeletRequest returns a request for a client certificate.
func kubeletRequest(e controllerstest.Env) *certificatesv1.CertificateSigningRequest {
	e.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	e.Must(err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "ann"}}, key)
	e.Must(err)
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "ann"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		}}
}

// exemptingPolicy returns a policy that allows only one user to create ReplicaSets.
func exemptingPolicy(user string) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "replicasets"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"replicasets"}}}}}},
			Validations: []admissionv1.Validation{{Expression: "request.userInfo.username == '" + user + "'", Message: "only one user may"}},
		}}
}

// TestFieldManagers checks that the controllers' writes have the field managers of the Kubernetes programs.
func TestFieldManagers(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.50.0.0/24"}}}
		policy := exemptingPolicy("nobody")
		claim := controllerstest.Claim("data", "1Gi", "standard")
		pod := controllerstest.Pod("user", "a", func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		})
		set := controllerstest.StatefulSet(1, "a")
		e.CreateAll(cidr, policy, set, claim, pod)
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim))
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		for _, tc := range []struct {
			object client.Object
			want   []string
		}{
			{cidr, []string{"kube-controller-manager Update", "service-cidr-controller Apply status"}},
			{policy, []string{"validatingadmissionpolicy-status Apply status"}},
			{&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}}, []string{"clusterrole-aggregation-controller Apply", "kube-apiserver Update"}},
			{set, []string{"kube-controller-manager Update status"}},
			{volume, []string{"kube-controller-manager Update status", "local-path-provisioner Update"}},
			{pod, []string{"kube-scheduler Update status", "kubelet Update status"}}, // it is nominated while its volume is bound
			{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "flyball"}}, []string{"kube-controller-manager Update", "kubelet Update"}},
		} {
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(tc.object), tc.object))
			var got []string
			for _, m := range tc.object.GetManagedFields() {
				if m.Manager == filepath.Base(os.Args[0]) {
					continue // the test
				}
				got = append(got, strings.TrimSpace(m.Manager+" "+string(m.Operation)+" "+m.Subresource))
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("the managers of %T %s are %q, want %q", tc.object, tc.object.GetName(), got, tc.want)
			}
		}
	})
}

// TestPolicyForOneController: a policy that exempts the account of the deployment controller refuses
// ReplicaSets of everybody else.
func TestPolicyForOneController(t *testing.T) {
	for user, allowed := range map[string]bool{
		"system:serviceaccount:kube-system:deployment-controller": true,
		"system:serviceaccount:kube-system:replicaset-controller": false,
	} {
		controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
			e.CreateAll(exemptingPolicy(user), &admissionv1.ValidatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "replicasets"},
				Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "replicasets",
					ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
			})
			e.CreateAll(controllerstest.Deployment(2, "a"))
			e.WaitIdle()
			if done := controllerstest.IsRolledOut(e.Deployment()); done != allowed {
				t.Errorf("with %s exempted, rolled out: %v", user, done)
			}
			set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own"},
				Spec: appsv1.ReplicaSetSpec{Selector: controllerstest.Deployment(1, "a").Spec.Selector, Template: controllerstest.Deployment(1, "a").Spec.Template}}
			if err := e.Create(e.Context(), set); !apierrors.IsInvalid(err) {
				t.Errorf("a ReplicaSet of the administrator: %v", err)
			}
		})
	}
}

// TestManifests: the selected controllers get the objects that they need, and no others.
func TestManifests(t *testing.T) {
	for _, tc := range []struct {
		names          []string
		nodeAuthorizer bool
		want           []string
	}{
		{nil, false, nil},
		{[]string{"certificatesigningrequest-signing-controller", "certificatesigningrequest-cleaner-controller"}, false, []string{"*v1.ServiceAccount certificate-controller"}},
		{[]string{"scheduler", "serviceaccount-token-controller"}, false, nil},
		{[]string{"pods"}, false, []string{"*v1.Node flyball", "*v1.ClusterRoleBinding flyball:nodes"}},
		{[]string{"pods"}, true, []string{"*v1.Node flyball"}},
		{[]string{"local-path-provisioner"}, true, []string{"*v1.ServiceAccount local-path-provisioner-service-account",
			"*v1.StorageClass standard", "*v1.ClusterRoleBinding local-path-provisioner-bind"}},
	} {
		o := controllers.Options{Without: slices.DeleteFunc(controllers.Names(), func(n string) bool { return slices.Contains(tc.names, n) })}
		manifests, err := o.Manifests(tc.nodeAuthorizer)
		var got []string
		for _, m := range manifests {
			got = append(got, fmt.Sprintf("%T %s", m, m.GetName()))
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%v need %q, %v; want %q", tc.names, got, err, tc.want)
		}
	}
}
