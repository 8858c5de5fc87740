package crd_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"flyball.dev/controlplane/controlplanetest"

	v1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var customDefinitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// stages is a definition with two versions. Their schemas have the field first of data, but not second.
const stages = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: stages.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: stages, singular: stage, kind: Stage, listKind: StageList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: &s {type: object, properties: {data: {type: object, properties: {first: {type: string}}}}}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: *s}}
`

// deny denies every request.
func deny(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
	controlplanetest.Respond(w, review, v1.AdmissionResponse{Result: &metav1.Status{Message: "this is denied", Reason: "Denied", Code: http.StatusForbidden}})
}

// TestWebhooksOfCustomResources checks webhooks that change custom resources: unknown fields are pruned afterwards, and
// a change of the storage version makes no difference.
func TestWebhooksOfCustomResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		plane := controlplanetest.StartWithWebhooks(t, hooks)
		client := controlplanetest.ClientFor(t, plane.Config())
		custom, err := dynamic.NewForConfig(plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		definitions := custom.Resource(customDefinitions)
		if _, err := definitions.Create(ctx, controlplanetest.Decode(t, stages), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		controlplanetest.CreateMutating(t, client, "stages",
			controlplanetest.MutatingWebhook("a", hooks.Handle("a", controlplanetest.Patch(`[{"op":"add","path":"/data","value":{"first":"yes"}}]`)), "stages"),
			controlplanetest.MutatingWebhook("b", hooks.Handle("b", controlplanetest.Patch(`[{"op":"add","path":"/data/second","value":"yes"}]`)), "stages"))
		in := func(version string) dynamic.ResourceInterface {
			return custom.Resource(schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "stages"}).Namespace("default")
		}
		check := func(u *unstructured.Unstructured, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			if data, _, _ := unstructured.NestedMap(u.Object, "data"); len(data) != 1 || data["first"] != "yes" {
				t.Errorf("%s: data is %v", u.GetAPIVersion(), data)
			}
		}
		stage := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Stage", "metadata": map[string]any{"name": "s"}}}
		check(in("v1").Create(ctx, stage, metav1.CreateOptions{}))
		check(in("v2").Get(ctx, "s", metav1.GetOptions{}))
		swap := `[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`
		crd, err := definitions.Patch(ctx, "stages.example.com", types.JSONPatchType, []byte(swap), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions"); strings.Join(stored, " ") != "v1 v2" {
			t.Errorf("stored versions: %v", stored)
		}
		check(in("v1").Patch(ctx, "s", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}},"data":{"first":"no"}}`), metav1.PatchOptions{}))
		check(in("v2").Patch(ctx, "s", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}))
		check(in("v1").Get(ctx, "s", metav1.GetOptions{}))
	})
}

// TestWebhooksThatDenyEverything checks that a definition that a webhook denies is not served, and
// that webhooks have no say in configurations of webhooks, so that they can always be removed.
func TestWebhooksThatDenyEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		plane := controlplanetest.StartWithWebhooks(t, hooks)
		client := controlplanetest.ClientFor(t, plane.Config())
		custom, err := dynamic.NewForConfig(plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		controlplanetest.CreateValidating(t, client, "deny", controlplanetest.ValidatingWebhook("deny", hooks.Handle("deny", deny), "*/*"))
		mutating := controlplanetest.MutatingWebhook("deny-too", hooks.Handle("deny", deny), "*/*")
		mutating.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Delete, admissionv1.Update}
		controlplanetest.CreateMutating(t, client, "deny-too", mutating)

		_, err = custom.Resource(customDefinitions).Create(ctx, controlplanetest.Decode(t, stages), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `admission webhook "deny.example.com" denied the request: this is denied`) {
			t.Errorf("create a definition: %v", err)
		}
		if _, err := client.Discovery().ServerResourcesForGroupVersion("example.com/v1"); !apierrors.IsNotFound(err) {
			t.Errorf("the definition is served: %v", err)
		}
		if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("a"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("create a config map: %v", err)
		}
		for _, remove := range []func() error{
			func() error {
				return client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "deny", metav1.DeleteOptions{})
			},
			func() error {
				return client.AdmissionregistrationV1().MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
			},
		} {
			if err := remove(); err != nil {
				t.Error(err)
			}
		}
		if _, err := custom.Resource(customDefinitions).Create(ctx, controlplanetest.Decode(t, stages), metav1.CreateOptions{}); err != nil {
			t.Errorf("without webhooks: %v", err)
		}
	})
}
