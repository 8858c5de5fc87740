package node_test

import (
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
)

// nodePod returns a pod on a node that refers to objects in every way that counts for its kubelet.
func nodePod(name, node string) *corev1.Pod {
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: name + "-account", ImagePullSecrets: []corev1.LocalObjectReference{local(name + "-pull")},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: new(name + "-device")}},
			Containers: []corev1.Container{{
				Name: "c", Image: "c",
				EnvFrom: []corev1.EnvFromSource{
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local(name + "-env-from")}},
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local(name + "-env-from")}},
				},
				Env: []corev1.EnvVar{
					{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local(name + "-env"), Key: "k"}}},
					{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local(name + "-env"), Key: "k"}}},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-claim"}}},
				{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name + "-volume"}}},
				{Name: "map", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local(name + "-volume")}}},
				{Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: local(name + "-projected")}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local(name + "-projected")}},
				}}}},
				{Name: "rbd", VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{
					CephMonitors: []string{"m"}, RBDImage: "i", RBDPool: "rbd", RadosUser: "admin", Keyring: "k", SecretRef: new(local(name + "-rbd"))}}},
				{Name: "csi", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d.example.com", NodePublishSecretRef: new(local(name + "-csi"))}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}}}},
			},
		},
	}
}

// createNodeObjects creates the objects of the nodes one and two.
func createNodeObjects(t *testing.T, admin *kubernetes.Clientset) {
	ctx := t.Context()
	for pod, node := range map[string]string{"a": "one", "b": "two"} {
		controlplanetest.Must[*corev1.Pod](t)(admin.CoreV1().Pods("default").Create(ctx, nodePod(pod, node), metav1.CreateOptions{}))
		controlplanetest.Must[*corev1.PersistentVolume](t)(admin.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: pod + "-volume"},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: pod + "-claim"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: "d.example.com", VolumeHandle: pod,
					NodeStageSecretRef:         &corev1.SecretReference{Namespace: "kube-system", Name: pod + "-stage"},
					ControllerPublishSecretRef: &corev1.SecretReference{Namespace: "kube-system", Name: pod + "-publish"},
				}},
			}}, metav1.CreateOptions{}))
		controlplanetest.Must[*storagev1.VolumeAttachment](t)(admin.StorageV1().VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: pod + "-attachment"},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: "d.example.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(pod + "-volume")}},
		}, metav1.CreateOptions{}))
		controlplanetest.Must[*resourcev1.ResourceSlice](t)(admin.ResourceV1().ResourceSlices().Create(ctx, &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: pod + "-slice"},
			Spec:       resourcev1.ResourceSliceSpec{Driver: "d.example.com", NodeName: new(node), Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}},
		}, metav1.CreateOptions{}))
	}
	mirror := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "mirror", Namespace: "default", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
		Spec: corev1.PodSpec{NodeName: "one", Containers: []corev1.Container{{Name: "c", Image: "c",
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "mirrored"}}}}}}}}
	controlplanetest.Must[*corev1.Pod](t)(admin.CoreV1().Pods("default").Create(ctx, mirror, metav1.CreateOptions{}))
}

// TestNodeAuthorizer checks the permissions of the kubelet of node one. A request has the form VERB
// GROUP/RESOURCE[/SUBRESOURCE] [NAMESPACE/]NAME [FIELD=VALUE]; a dash stands for no name.
func TestNodeAuthorizer(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, AuthorizationMode: "Node,RBAC"})
	admin := controlplanetest.ClientFor(t, plane.Config())
	createNodeObjects(t, admin)
	const (
		allowed    = "allowed"
		unrelated  = "no relationship found between node 'one' and this object"
		individual = "can only get individual resources of this type"
	)
	for request, want := range map[string]string{
		"get /secrets default/a-pull":                                        allowed,
		"get /secrets default/a-env":                                         allowed,
		"list /secrets default/a-env-from":                                   allowed,
		"watch /secrets default/a-volume":                                    allowed,
		"get /secrets default/a-projected":                                   allowed,
		"get /secrets default/a-rbd":                                         allowed,
		"get /secrets default/a-csi":                                         allowed,
		"get /secrets kube-system/a-stage":                                   allowed,
		"get /secrets kube-system/a-publish":                                 unrelated,
		"get /secrets default/a-stage":                                       unrelated,
		"get /secrets default/b-env":                                         unrelated,
		"get /secrets kube-system/a-env":                                     unrelated,
		"get /secrets kube-system/b-stage":                                   unrelated,
		"get /secrets default/mirrored":                                      unrelated,
		"get /secrets -":                                                     "can only read namespaced object of this type",
		"list /secrets default/-":                                            "No Object name found",
		"update /secrets default/a-env":                                      "can only read resources of this type",
		"get /secrets/x default/a-env":                                       "cannot read subresource",
		"get /configmaps default/a-env":                                      allowed,
		"get /configmaps default/a-env-from":                                 allowed,
		"get /configmaps default/a-volume":                                   allowed,
		"get /configmaps default/a-projected":                                allowed,
		"get /configmaps default/b-volume":                                   unrelated,
		"get /persistentvolumeclaims default/a-claim":                        allowed,
		"get /persistentvolumeclaims default/a-scratch":                      allowed,
		"get /persistentvolumeclaims default/b-claim":                        unrelated,
		"list /persistentvolumeclaims default/-":                             individual,
		"patch /persistentvolumeclaims/status default/a-claim":               allowed,
		"patch /persistentvolumeclaims/status default/b-claim":               unrelated,
		"get /persistentvolumeclaims/status default/a-claim":                 "can only get/update/patch this type",
		"get /persistentvolumes a-volume":                                    allowed,
		"get /persistentvolumes b-volume":                                    unrelated,
		"get /persistentvolumes missing":                                     unrelated,
		"list /persistentvolumes -":                                          individual,
		"get storage.k8s.io/volumeattachments a-attachment":                  allowed,
		"get storage.k8s.io/volumeattachments b-attachment":                  unrelated,
		"get resource.k8s.io/resourceclaims default/a-device":                allowed,
		"get resource.k8s.io/resourceclaims default/b-device":                unrelated,
		"get /serviceaccounts default/a-account":                             allowed,
		"create /serviceaccounts/token default/a-account":                    allowed,
		"create /serviceaccounts/token default/b-account":                    unrelated,
		"create /serviceaccounts/token default/-":                            "can only create tokens for individual service accounts",
		"create /serviceaccounts default/a-account":                          "can only create token subresource of serviceaccount",
		"list /serviceaccounts default/-":                                    "can only create tokens for individual service accounts",
		"get coordination.k8s.io/leases kube-node-lease/one":                 allowed,
		"create coordination.k8s.io/leases kube-node-lease/-":                allowed,
		"get coordination.k8s.io/leases kube-node-lease/two":                 "can only access node lease with the same name as the requesting node",
		"get coordination.k8s.io/leases default/one":                         `can only access leases in the "kube-node-lease" system namespace`,
		"list coordination.k8s.io/leases kube-node-lease/-":                  "can only get, create, update, patch, or delete a node lease",
		"update storage.k8s.io/csinodes one":                                 allowed,
		"create storage.k8s.io/csinodes -":                                   allowed,
		"update storage.k8s.io/csinodes two":                                 "can only access CSINode with the same name as the requesting node",
		"list storage.k8s.io/csinodes -":                                     "can only get, create, update, patch, or delete a CSINode",
		"update storage.k8s.io/csinodes/x one":                               "cannot authorize CSINode subresources",
		"get resource.k8s.io/resourceslices a-slice":                         allowed,
		"delete resource.k8s.io/resourceslices b-slice":                      unrelated,
		"create resource.k8s.io/resourceslices -":                            allowed,
		"list resource.k8s.io/resourceslices - spec.nodeName=one":            allowed,
		"deletecollection resource.k8s.io/resourceslices - spec.nodeName=x":  "can only list/watch/deletecollection resourceslices with nodeName field selector",
		"escalate resource.k8s.io/resourceslices -":                          "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
		"get /nodes one":                                                     allowed,
		"watch /nodes one":                                                   allowed,
		"list /nodes -":                                                      "node 'one' cannot read all nodes, only its own Node object",
		"get /nodes two":                                                     "node 'one' cannot read 'two', only its own Node object",
		"patch /nodes/status one":                                            allowed,
		"delete /nodes one":                                                  "",
		"get /pods default/a":                                                allowed,
		"get /pods default/mirror":                                           allowed,
		"get /pods default/b":                                                unrelated,
		"list /pods -":                                                       "can only list/watch pods with spec.nodeName field selector",
		"list /pods - spec.nodeName=one":                                     allowed,
		"watch /pods - spec.nodeName=two":                                    "can only list/watch pods with spec.nodeName field selector",
		"watch /pods default/a":                                              allowed,
		"delete /pods default/b":                                             allowed,
		"update /pods default/a":                                             "",
		"patch /pods/status default/a":                                       allowed,
		"create /pods/eviction default/a":                                    allowed,
		"create /pods/exec default/a":                                        "",
		"create certificates.k8s.io/podcertificaterequests default/-":        allowed,
		"get certificates.k8s.io/podcertificaterequests default/x":           unrelated,
		"list certificates.k8s.io/podcertificaterequests -":                  "can only list/watch podcertificaterequests with nodeName field selector",
		"delete certificates.k8s.io/podcertificaterequests default/x":        "nodes may not delete podcertificaterequests",
		"update certificates.k8s.io/podcertificaterequests/status default/x": "nodes may not access the status subresource of PodCertificateRequests",
		"list /services -":                                                   allowed,
		"create authentication.k8s.io/tokenreviews -":                        allowed,
		"list apps/deployments default/-":                                    "",
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:node:one", Groups: []string{"system:nodes"}, ResourceAttributes: requestAttributes(request)}}
		got := controlplanetest.Must[*authorizationv1.SubjectAccessReview](t)(admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})).Status
		if got.Allowed != (want == allowed) || !got.Allowed && got.Reason != want || got.EvaluationError != "" {
			t.Errorf("%s: got %+v, want %q", request, got, want)
		}
	}
}

func requestAttributes(request string) *authorizationv1.ResourceAttributes {
	words := strings.Fields(request)
	a := &authorizationv1.ResourceAttributes{Verb: words[0], Version: "v1"}
	var resource string
	a.Group, resource, _ = strings.Cut(words[1], "/")
	a.Resource, a.Subresource, _ = strings.Cut(resource, "/")
	if namespace, name, ok := strings.Cut(words[2], "/"); ok {
		a.Namespace, a.Name = namespace, name
	} else {
		a.Name = words[2]
	}
	a.Name = strings.TrimPrefix(a.Name, "-")
	if len(words) > 3 {
		field, value, _ := strings.Cut(words[3], "=")
		a.FieldSelector = &authorizationv1.FieldSelectorAttributes{
			Requirements: []metav1.FieldSelectorRequirement{{Key: field, Operator: metav1.FieldSelectorOpIn, Values: []string{value}}}}
	}
	return a
}

// TestNodeAuthorizerAtOnce: a kubelet gets and loses access with the pod that is bound to its node, and
// has none without its group or the mode.
func TestNodeAuthorizerAtOnce(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, AuthorizationMode: "Node"})
	admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
	kubelet := controlplanetest.As(t, plane, "system:node:one", "system:nodes")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a-env"}}
	controlplanetest.Must[*corev1.Secret](t)(admin.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}))
	read := func(c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Secrets("default").Get(ctx, "a-env", metav1.GetOptions{})
		return err
	}
	const no = `secrets "a-env" is forbidden: User "system:node:one" cannot get resource "secrets" in API group "" in the namespace "default"`
	controlplanetest.Refused(t, read(kubelet), no+": no relationship found between node 'one' and this object")
	pods := admin.CoreV1().Pods("default")
	controlplanetest.Must[*corev1.Pod](t)(pods.Create(ctx, nodePod("a", ""), metav1.CreateOptions{}))
	if err := read(kubelet); !apierrors.IsForbidden(err) {
		t.Errorf("the pod has no node: %v", err)
	}
	if err := pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: corev1.ObjectReference{Kind: "Node", Name: "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := read(kubelet); err != nil {
		t.Error(err)
	}
	controlplanetest.Refused(t, read(controlplanetest.As(t, plane, "system:node:one")), no)
	list := controlplanetest.Must[*corev1.PodList](t)(kubelet.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=one"}))
	if len(list.Items) != 1 || list.Items[0].Name != "a" {
		t.Errorf("the pods of the node: %v", list.Items)
	}
	if err := pods.Delete(ctx, "a", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	if err := read(kubelet); !apierrors.IsForbidden(err) {
		t.Errorf("the pod is deleted: %v", err)
	}
	rules := controlplanetest.Must[*authorizationv1.SelfSubjectRulesReview](t)(controlplanetest.As(t, plane, "system:node:one", "system:nodes", "system:masters").AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{}))
	if !rules.Status.Incomplete || rules.Status.EvaluationError != "node authorizer does not support user rule resolution" {
		t.Errorf("rules: %+v", rules.Status)
	}
	_, err := controlplane.Start(ctx, controlplane.Options{AuthorizationMode: "Node,Node"})
	if err == nil || !strings.Contains(err.Error(), `authorization-mode ["Node" "Node"] has mode specified more than once`) {
		t.Errorf("a repeated mode: %v", err)
	}
	_, err = controlplane.Start(ctx, controlplane.Options{AuthorizationMode: "Node"})
	if err == nil || !strings.Contains(err.Error(), "the authorization mode Node alone does not authorize controllers: use Node,RBAC") {
		t.Errorf("controllers with the mode Node alone: %v", err)
	}
	rbacOnly := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	if _, err := controlplanetest.As(t, rbacOnly, "system:node:one", "system:nodes").CoreV1().Nodes().Get(ctx, "one", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without the mode Node: %v", err)
	}
}
