package crd_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"flyball.dev/controlplane"
)

// converting returns a conversion webhook that changes the version of objects, and then each object
// and the response.
func converting(change func(u *unstructured.Unstructured), lie func(r *apiextensionsv1.ConversionResponse)) controlplanetest.ConversionFunc {
	return func(w http.ResponseWriter, _ *http.Request, review *apiextensionsv1.ConversionReview) {
		response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			u := &unstructured.Unstructured{}
			if err := json.Unmarshal(raw.Raw, u); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			u.SetAPIVersion(review.Request.DesiredAPIVersion)
			if change != nil {
				change(u)
			}
			response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: u})
		}
		if lie != nil {
			lie(response)
		}
		review.Request, review.Response = nil, response
		_ = json.NewEncoder(w).Encode(review)
	}
}

// TestConversionWebhook has a conversion webhook, called by service, that fails and lies.
func TestConversionWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		hooks.Address = "127.0.0.1:9443"
		cfg := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, DialWebhook: hooks.Dial, LoopbackPorts: []uint16{9443}}).Config()
		client, err := dynamic.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		_, err = controlplanetest.ClientFor(t, cfg).CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "hook", Annotations: map[string]string{"flyball.dev/loopback-port": "9443"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		crd := controlplanetest.Decode(t, strings.Replace(controlplanetest.Widgets, "  versions:", `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: default, name: hook, path: /convert}, caBundle: `+base64.StdEncoding.EncodeToString(hooks.CA)+`}}
  versions:
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`, 1))
		if _, err := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		in := func(version string) dynamic.ResourceInterface {
			return client.Resource(schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"}).Namespace("default")
		}
		stored := controlplanetest.Decode(t, controlplanetest.ExampleWidget)
		stored.SetName("stored")
		if _, err := in("v1").Create(ctx, stored, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			name    string
			convert controlplanetest.ConversionFunc
			want    string // empty if the object is converted
		}{
			{"time out", func(_ http.ResponseWriter, r *http.Request, _ *apiextensionsv1.ConversionReview) {
				<-r.Context().Done()
			},
				`conversion webhook for example.com/v1, Kind=Widget failed: Post "https://hook.default.svc:443/convert?timeout=30s": `},
			{"hang up", func(http.ResponseWriter, *http.Request, *apiextensionsv1.ConversionReview) {
				panic(http.ErrAbortHandler)
			},
				`conversion webhook for example.com/v1, Kind=Widget failed: Post "https://hook.default.svc:443/convert?timeout=30s": EOF`},
			{"another UID", converting(nil, func(r *apiextensionsv1.ConversionResponse) { r.UID = "another" }),
				`conversion webhook for example.com/v1, Kind=Widget failed: expected response.uid=`},
			{"failure", converting(nil, func(r *apiextensionsv1.ConversionResponse) {
				r.Result = metav1.Status{Status: metav1.StatusFailure, Message: "cannot"}
			}), `conversion webhook for example.com/v1, Kind=Widget failed: cannot`},
			{"too few objects", converting(nil, func(r *apiextensionsv1.ConversionResponse) { r.ConvertedObjects = nil }),
				`conversion webhook for example.com/v1, Kind=Widget returned 0 objects, expected 1`},
			{"another version", converting(func(u *unstructured.Unstructured) { u.SetAPIVersion("example.com/v3") }, nil),
				`invalid groupVersion (expected example.com/v2, received example.com/v3)`},
			{"another name", converting(func(u *unstructured.Unstructured) { u.SetName("another") }, nil), `must have the same name: stored != another`},
			{"another UID of the object", converting(func(u *unstructured.Unstructured) { u.SetUID("another") }, nil), `must have the same UID: `},
			{"labels", converting(func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"converted": "yes"}) }, nil), ``},
		} {
			hooks.Converts(tc.convert)
			got, err := in("v2").Get(ctx, "stored", metav1.GetOptions{})
			switch {
			case tc.want == "" && (err != nil || got.GetLabels()["converted"] != "yes"):
				t.Errorf("%s: %v, %v", tc.name, err, got)
			case tc.want != "" && (!apierrors.IsInternalError(err) && apierrors.ReasonForError(err) != metav1.StatusReasonUnknown || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
			}
			if tc.want == "" {
				continue
			}
			if _, err := in("v2").Patch(ctx, "stored", types.MergePatchType, []byte(`{"spec":{"image":"x"}}`), metav1.PatchOptions{}); err == nil {
				t.Errorf("%s: patched", tc.name)
			}
			if got, err := in("v1").Get(ctx, "stored", metav1.GetOptions{}); err != nil || got.Object["spec"].(map[string]any)["image"] == "x" {
				t.Errorf("%s: in the version that is stored: %v, %v", tc.name, err, got)
			}
		}
	})
}

// TestConversionIsRepeated: a read without a resource version asks the webhook each time, as in
// kube-apiserver, which reads from etcd then. Lists, watches and reads with a resource version get what was
// converted before, like kube-apiserver's from its watch cache, until the definition changes.
func TestConversionIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		var calls atomic.Int32
		answer := func(label string) {
			hooks.Converts(func(w http.ResponseWriter, r *http.Request, review *apiextensionsv1.ConversionReview) {
				calls.Add(1)
				converting(func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"by": label}) }, nil)(w, r, review)
			})
		}
		client, err := dynamic.NewForConfig(controlplanetest.StartWithWebhooks(t, hooks).Config())
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		url := "https://" + controlplanetest.WebhookHost + "/convert"
		definition := controlplanetest.Decode(t, strings.Replace(controlplanetest.Widgets, "  versions:", `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "`+url+`", caBundle: `+base64.StdEncoding.EncodeToString(hooks.CA)+`}}
  versions:
  - {name: v2, served: true, storage: false, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`, 1))
		definitions := client.Resource(customDefinitions)
		if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		in := func(version string) dynamic.ResourceInterface {
			return client.Resource(schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"}).Namespace("default")
		}
		stored := controlplanetest.Decode(t, controlplanetest.ExampleWidget)
		stored.SetName("stored")
		if _, err := in("v1").Create(ctx, stored, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		get := func(o metav1.GetOptions, subresources ...string) string {
			t.Helper()
			got, err := in("v2").Get(ctx, "stored", o, subresources...)
			if err != nil {
				t.Fatal(err)
			}
			return got.GetLabels()["by"]
		}
		list := func(o metav1.ListOptions) string {
			t.Helper()
			got, err := in("v2").List(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			return got.Items[0].GetLabels()["by"]
		}
		watch := func(o metav1.ListOptions) string {
			t.Helper()
			w, err := in("v2").Watch(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			return (<-w.ResultChan()).Object.(*unstructured.Unstructured).GetLabels()["by"]
		}
		expect := func(what, got, want string, wantCalls int32) {
			t.Helper()
			if n := calls.Swap(0); got != want || n != wantCalls {
				t.Errorf("%s: converted by %q in %d calls, want %q in %d", what, got, n, want, wantCalls)
			}
		}
		answer("first")
		expect("the first read", get(metav1.GetOptions{}), "first", 1)
		expect("the second read", get(metav1.GetOptions{}), "first", 1)
		answer("second")
		expect("a read", get(metav1.GetOptions{}), "second", 1)
		expect("a read of the status", get(metav1.GetOptions{}, "status"), "second", 1)
		expect("a read of any version", get(metav1.GetOptions{ResourceVersion: "0"}), "first", 0)
		expect("a list", list(metav1.ListOptions{}), "first", 0)
		expect("a list of any version", list(metav1.ListOptions{ResourceVersion: "0"}), "first", 0)
		expect("a watch", watch(metav1.ListOptions{}), "first", 0)
		if got, err := in("v1").Get(ctx, "stored", metav1.GetOptions{}); err != nil || got.GetLabels()["by"] != "" {
			t.Errorf("in the version that is stored: %v, %v", got, err)
		}
		expect("in the version that is stored", "", "", 0)

		if _, err := in("v1").Patch(ctx, "stored", types.MergePatchType, []byte(`{"spec":{"image":"x"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("a list after an update", list(metav1.ListOptions{}), "second", 1)
		answer("third")
		change := []byte(`{"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v1","v1beta1"]}}}}`)
		if _, err := definitions.Patch(ctx, "widgets.example.com", types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("a list after a change of the definition", list(metav1.ListOptions{}), "third", 1)
		expect("a watch after that", watch(metav1.ListOptions{}), "third", 0)
		change = []byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
		if _, err := definitions.Patch(ctx, "widgets.example.com", types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("a list without a webhook", list(metav1.ListOptions{}), "", 0)
		expect("a read without a webhook", get(metav1.GetOptions{}), "", 0)
	})
}
