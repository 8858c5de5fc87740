package webhook_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"flyball.dev/controlplane/controlplanetest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
)

// TestMutatingWebhook checks that changes of a configuration take effect with the next request, that defaults apply to
// fields that a webhook adds, and that invalid results are rejected.
func TestMutatingWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		client := controlplanetest.ClientFor(t, controlplanetest.StartWithWebhooks(t, hooks).Config())
		pods := client.CoreV1().Pods("default")
		configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
		create := func(n int) *corev1.Pod {
			t.Helper()
			p, err := pods.Create(t.Context(), controlplanetest.ExamplePod(n), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		if p := create(1); len(p.Spec.Containers) != 1 {
			t.Errorf("before there are webhooks: %d containers", len(p.Spec.Containers))
		}
		hook := controlplanetest.MutatingWebhook("sidecar", hooks.Handle("sidecar", controlplanetest.Patch(`[{"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "proxy:1"}}]`)), "pods")
		hook.Rules = controlplanetest.WebhookRule("pods", admissionv1.Create)
		controlplanetest.CreateMutating(t, client, "sidecar", hook)
		p := create(2)
		if len(p.Spec.Containers) != 2 || p.Spec.Containers[1].TerminationMessagePath == "" {
			t.Errorf("with a sidecar: %+v", p.Spec.Containers)
		}
		bad := hooks.Handle("bad", controlplanetest.Patch(`[{"op": "add", "path": "/spec/containers/-", "value": {"name": "BAD", "image": "proxy:1"}}]`))
		change, _ := json.Marshal([]map[string]any{{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": *bad.URL}})
		if _, err := configurations.Patch(t.Context(), "sidecar", types.JSONPatchType, change, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := pods.Create(t.Context(), controlplanetest.ExamplePod(3), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.containers[1].name") {
			t.Errorf("an invalid sidecar: %v", err)
		}
		if err := configurations.Delete(t.Context(), "sidecar", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if p := create(3); len(p.Spec.Containers) != 1 {
			t.Errorf("after the configuration is deleted: %d containers", len(p.Spec.Containers))
		}
	})
}

// TestWebhookFailures has webhooks that fail or lie. With failurePolicy Ignore, failures to call
// are ignored, but not answers that cannot be followed.
func TestWebhookFailures(t *testing.T) {
	hangUp := func(w http.ResponseWriter, _ *http.Request, _ *v1.AdmissionReview) { panic(http.ErrAbortHandler) }
	for _, tc := range []struct {
		name    string
		answer  controlplanetest.WebhookFunc
		want    string // part of the message
		code    int32
		ignored bool // with failurePolicy Ignore
	}{
		{"time out", func(_ http.ResponseWriter, r *http.Request, _ *v1.AdmissionReview) { <-r.Context().Done() },
			`Internal error occurred: failed calling webhook "x.example.com": failed to call webhook: Post "https://example.com/x?timeout=10s": context deadline exceeded`, 500, true},
		{"hang up", hangUp, `Internal error occurred: failed calling webhook "x.example.com": failed to call webhook: Post "https://example.com/x?timeout=10s": EOF`, 500, true},
		{"error", func(w http.ResponseWriter, _ *http.Request, _ *v1.AdmissionReview) {
			http.Error(w, "boom", http.StatusServiceUnavailable)
		},
			`failed calling webhook "x.example.com": failed to call webhook: the server is currently unable to handle the request`, 500, true},
		{"another UID", func(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
			controlplanetest.Respond(w, review, v1.AdmissionResponse{UID: "another", Allowed: true})
		}, `failed calling webhook "x.example.com": received invalid webhook response: expected response.uid=`, 500, true},
		{"no response", func(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
			_ = json.NewEncoder(w).Encode(review)
		},
			`failed calling webhook "x.example.com": received invalid webhook response: webhook response was absent`, 500, true},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request, _ *v1.AdmissionReview) { fmt.Fprint(w, "{") },
			`failed calling webhook "x.example.com": failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input`, 500, true},
		{"HTML", func(w http.ResponseWriter, _ *http.Request, _ *v1.AdmissionReview) { fmt.Fprint(w, "<html>") },
			`failed calling webhook "x.example.com": failed to call webhook: `, 500, true},
		{"another kind", func(w http.ResponseWriter, _ *http.Request, _ *v1.AdmissionReview) {
			fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1"}`)
		},
			`failed calling webhook "x.example.com": failed to call webhook: `, 500, true},
		{"a loop of redirects", func(w http.ResponseWriter, r *http.Request, _ *v1.AdmissionReview) {
			http.Redirect(w, r, "/x", http.StatusTemporaryRedirect)
		},
			`failed calling webhook "x.example.com": failed to call webhook: `, 500, true},
		{"3 MB of warnings and then nothing", func(w http.ResponseWriter, r *http.Request, _ *v1.AdmissionReview) {
			fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"warnings":["%s`, strings.Repeat("x", 3<<20))
			panic(http.ErrAbortHandler)
		}, `failed calling webhook "x.example.com": failed to call webhook: `, 500, true},
		{"a patch without a type", func(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
			controlplanetest.Respond(w, review, v1.AdmissionResponse{Allowed: true, Patch: []byte(`[]`)})
		}, `received invalid webhook response: webhook returned response.patch but not response.patchType`, 500, true},
		{"a patch that is none", controlplanetest.Patch(`{}`), `received undecodable patch in webhook response: `, 500, true},
		{"a patch that does not apply", controlplanetest.Patch(`[{"op": "remove", "path": "/data/missing"}]`), `Internal error occurred: error in remove for path: '/data/missing': Unable to remove nonexistent key: missing: missing value`, 500, false},
		{"a patch of another kind", controlplanetest.Patch(`[{"op": "replace", "path": "/kind", "value": "Secret"}]`), ``, 500, false},
		{"a patch to no object", controlplanetest.Patch(`[{"op": "replace", "path": "/data", "value": 7}]`), `Internal error occurred: `, 500, false},
		{"another name", controlplanetest.Patch(`[{"op": "replace", "path": "/metadata/name", "value": "BAD NAME"}]`), `metadata.name: Invalid value: "BAD NAME"`, 422, false},
		{"another namespace", controlplanetest.Patch(`[{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]`), ``, 0, false},
		{"denied", func(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
			controlplanetest.Respond(w, review, v1.AdmissionResponse{Result: &metav1.Status{Message: "not today"}})
		}, `admission webhook "x.example.com" denied the request: not today`, 400, false},
		{"denied without a reason", func(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
			controlplanetest.Respond(w, review, v1.AdmissionResponse{})
		}, `admission webhook "x.example.com" denied the request without explanation`, 400, false},
		{"denied with a code", func(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
			controlplanetest.Respond(w, review, v1.AdmissionResponse{Result: &metav1.Status{Code: 409, Reason: metav1.StatusReasonConflict, Message: "again"}})
		}, `admission webhook "x.example.com" denied the request: again`, 409, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hooks := controlplanetest.ServeWebhooks(t)
				client := controlplanetest.ClientFor(t, controlplanetest.StartWithWebhooks(t, hooks).Config())
				maps := client.CoreV1().ConfigMaps("default")
				hook := controlplanetest.MutatingWebhook("x", hooks.Handle("x", tc.answer), "configmaps")
				hook.Rules = controlplanetest.WebhookRule("configmaps", admissionv1.Create)
				controlplanetest.CreateMutating(t, client, "x", hook)
				_, err := maps.Create(t.Context(), controlplanetest.ConfigMap("a"), metav1.CreateOptions{})
				status := &apierrors.StatusError{}
				switch ok := asStatus(err, &status); {
				case tc.code == 0 && err == nil:
					t.Errorf("created")
				case tc.code != 0 && (!ok || status.ErrStatus.Code != tc.code || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("got %+v, want %d %q", err, tc.code, tc.want)
				}
				change := `[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`
				if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), "x", types.JSONPatchType, []byte(change), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err = maps.Create(t.Context(), controlplanetest.ConfigMap("b"), metav1.CreateOptions{}); (err == nil) != tc.ignored {
					t.Errorf("with failurePolicy Ignore: %v", err)
				}
				if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("what was refused is stored: %v", err)
				}
			})
		})
	}
}

func asStatus(err error, to **apierrors.StatusError) bool {
	status, ok := err.(*apierrors.StatusError)
	*to = status
	return ok
}

// reviewed is the request of a review.
type reviewed struct {
	Operation                   v1.Operation
	Resource, Subresource, Name string
	Kind                        string
	Object, Old, DryRun         bool
}

// recorder is a webhook that allows everything and records the reviews.
type recorder struct {
	mu  sync.Mutex
	all []reviewed
}

func (r *recorder) review(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
	q := review.Request
	r.mu.Lock()
	r.all = append(r.all, reviewed{q.Operation, q.Resource.Resource, q.SubResource, q.Name, q.Kind.Kind,
		q.Object.Raw != nil, q.OldObject.Raw != nil, q.DryRun != nil && *q.DryRun})
	r.mu.Unlock()
	controlplanetest.Respond(w, review, v1.AdmissionResponse{Allowed: true})
}

// take returns the reviews since the last call.
func (r *recorder) take() []reviewed {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// TestWebhookVerbs checks which requests webhooks of either kind are asked about.
func TestWebhookVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		plane := controlplanetest.StartWithWebhooks(t, hooks)
		client := controlplanetest.ClientFor(t, plane.Config())
		custom, err := dynamic.NewForConfig(plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		crds := custom.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		if _, err := crds.Create(t.Context(), controlplanetest.Decode(t, controlplanetest.Widgets), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var mutating, validating recorder
		controlplanetest.CreateMutating(t, client, "all", controlplanetest.MutatingWebhook("m", hooks.Handle("m", mutating.review), "*/*"))
		controlplanetest.CreateValidating(t, client, "all", controlplanetest.ValidatingWebhook("v", hooks.Handle("v", validating.review), "*/*"))
		ctx := t.Context()
		maps, pods, deployments := client.CoreV1().ConfigMaps("default"), client.CoreV1().Pods("default"), client.AppsV1().Deployments("default")
		widgets := custom.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
		widget := controlplanetest.Decode(t, controlplanetest.ExampleWidget)
		widget.SetName("w")
		const merge = types.MergePatchType
		for _, tc := range []struct {
			name string
			do   func() error
			want []reviewed
		}{
			{"create", func() error {
				_, err := maps.Create(ctx, controlplanetest.ConfigMap("a"), metav1.CreateOptions{})
				return err
			},
				[]reviewed{{"CREATE", "configmaps", "", "a", "ConfigMap", true, false, false}}},
			{"dry run", func() error {
				_, err := maps.Create(ctx, controlplanetest.ConfigMap("dry"), metav1.CreateOptions{DryRun: []string{"All"}})
				return err
			}, []reviewed{{"CREATE", "configmaps", "", "dry", "ConfigMap", true, false, true}}},
			{"update", func() error {
				_, err := maps.Update(ctx, controlplanetest.ConfigMap("a"), metav1.UpdateOptions{})
				return err
			},
				[]reviewed{{"UPDATE", "configmaps", "", "a", "ConfigMap", true, true, false}}},
			{"patch", func() error {
				_, err := maps.Patch(ctx, "a", merge, []byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{})
				return err
			},
				[]reviewed{{"UPDATE", "configmaps", "", "a", "ConfigMap", true, true, false}}},
			{"apply to create", func() error {
				_, err := maps.Apply(ctx, corev1apply.ConfigMap("applied", "default"), metav1.ApplyOptions{FieldManager: "t"})
				return err
			}, []reviewed{{"CREATE", "configmaps", "", "applied", "ConfigMap", true, false, false}}},
			{"delete", func() error { return maps.Delete(ctx, "a", metav1.DeleteOptions{}) },
				[]reviewed{{"DELETE", "configmaps", "", "a", "ConfigMap", false, true, false}}},
			{"delete collection", func() error { return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}) },
				[]reviewed{{"DELETE", "configmaps", "", "", "ConfigMap", false, true, false}}},
			{"pod", func() error {
				_, err := pods.Create(ctx, controlplanetest.ExamplePod(1), metav1.CreateOptions{})
				return err
			},
				[]reviewed{{"CREATE", "pods", "", "pod-1", "Pod", true, false, false}}},
			{"binding", func() error {
				return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "pod-1"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{})
			}, []reviewed{{"CREATE", "pods", "binding", "pod-1", "Binding", true, false, false}}},
			{"status", func() error {
				_, err := pods.Patch(ctx, "pod-1", merge, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
				return err
			},
				[]reviewed{{"UPDATE", "pods", "status", "pod-1", "Pod", true, true, false}}},
			{"eviction", func() error {
				return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "pod-1"}, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
			}, []reviewed{{"CREATE", "pods", "eviction", "pod-1", "Eviction", true, false, false}}},
			{"scale", func() error {
				if _, err := deployments.Create(ctx, controlplanetest.ExampleDeployment(), metav1.CreateOptions{}); err != nil {
					return err
				}
				mutating.take()
				validating.take()
				_, err := deployments.Patch(ctx, "web", merge, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}, "scale")
				return err
			}, []reviewed{{"UPDATE", "deployments", "scale", "web", "Scale", true, true, false}}},
			{"custom resource", func() error { _, err := widgets.Create(ctx, widget, metav1.CreateOptions{}); return err },
				[]reviewed{{"CREATE", "widgets", "", "w", "Widget", true, false, false}}},
			{"status of a custom resource", func() error {
				_, err := widgets.Patch(ctx, "w", merge, []byte(`{"status":{"ready":1}}`), metav1.PatchOptions{}, "status")
				return err
			}, []reviewed{{"UPDATE", "widgets", "status", "w", "Widget", true, true, false}}},
			{"deletion of a custom resource", func() error { return widgets.Delete(ctx, "w", metav1.DeleteOptions{}) },
				[]reviewed{{"DELETE", "widgets", "", "w", "Widget", false, true, false}}},
			{"a configuration of webhooks", func() error {
				_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(ctx, "all", merge, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
				return err
			}, nil},
			{"read", func() error { _, err := maps.List(ctx, metav1.ListOptions{}); return err }, nil},
		} {
			if err := tc.do(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			for kind, r := range map[string]*recorder{"mutating": &mutating, "validating": &validating} {
				if got := r.take(); !cmp.Equal(got, tc.want) {
					t.Errorf("%s, %s: got %+v, want %+v", tc.name, kind, got, tc.want)
				}
			}
		}
	})
}

// TestWebhookMatching checks selectors, match conditions, side effects, warnings and changes that
// are not supported.
func TestWebhookMatching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		cfg := controlplanetest.StartWithWebhooks(t, hooks).Config()
		var seen controlplanetest.Warnings
		cfg.WarningHandler = &seen
		client := controlplanetest.ClientFor(t, cfg)
		maps := client.CoreV1().ConfigMaps("default")
		deny := func(name string) admissionv1.WebhookClientConfig {
			return hooks.Handle(name, func(w http.ResponseWriter, _ *http.Request, review *v1.AdmissionReview) {
				controlplanetest.Respond(w, review, v1.AdmissionResponse{
					Warnings: []string{name + " warns"}, Result: &metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"},
				})
			})
		}
		labeled := controlplanetest.ValidatingWebhook("labeled", deny("labeled"), "configmaps")
		labeled.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"deny": "object"}}
		elsewhere := controlplanetest.ValidatingWebhook("elsewhere", deny("elsewhere"), "configmaps")
		elsewhere.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"deny": "namespace"}}
		condition := controlplanetest.ValidatingWebhook("condition", deny("condition"), "configmaps")
		condition.MatchConditions = []admissionv1.MatchCondition{{Name: "named", Expression: "request.operation == 'CREATE' && object.metadata.name.startsWith('bad')"}}
		broken := controlplanetest.ValidatingWebhook("broken", deny("broken"), "configmaps")
		broken.MatchConditions = []admissionv1.MatchCondition{{Name: "broken", Expression: "request.operation == 'CREATE' && request.name == 'broken' && object.data.missing == 'x'"}}
		effects := controlplanetest.ValidatingWebhook("effects", deny("effects"), "secrets")
		effects.SideEffects = new(admissionv1.SideEffectClassNoneOnDryRun)
		controlplanetest.CreateValidating(t, client, "v", labeled, elsewhere, condition, broken, effects)
		create := func(name string, labels map[string]string) error {
			cm := controlplanetest.ConfigMap(name)
			cm.Labels = labels
			_, err := maps.Create(t.Context(), cm, metav1.CreateOptions{})
			return err
		}
		if err := create("a", nil); err != nil {
			t.Fatal(err)
		}
		controlplanetest.Forbidden(t, create("b", map[string]string{"deny": "object"}), `admission webhook "labeled.example.com" denied the request`)
		if got := seen.Take(); !slices.Contains(got, "labeled warns") {
			t.Errorf("warnings: %q", got)
		}
		controlplanetest.Forbidden(t, create("bad", nil), `admission webhook "condition.example.com" denied the request`)
		controlplanetest.Forbidden(t, create("broken", nil), `no such key: missing`)
		// The selector applies to the current labels of the namespace.
		change := []byte(`{"metadata":{"labels":{"deny":"namespace"}}}`)
		if _, err := client.CoreV1().Namespaces().Patch(t.Context(), "default", types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		controlplanetest.Forbidden(t, create("c", nil), `admission webhook "elsewhere.example.com" denied the request`)
		controlplanetest.Forbidden(t, maps.Delete(t.Context(), "a", metav1.DeleteOptions{}), `admission webhook "elsewhere.example.com" denied the request`)
		controlplanetest.Forbidden(t, maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}), `admission webhook "elsewhere.example.com" denied the request`)

		deleting := controlplanetest.MutatingWebhook("m", hooks.Handle("m", controlplanetest.Patch(`[{"op": "remove", "path": "/data"}]`)), "secrets")
		controlplanetest.CreateMutating(t, client, "m", deleting)
		_, err := client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": nil}}, metav1.CreateOptions{DryRun: []string{"All"}})
		controlplanetest.Forbidden(t, err, `admission webhook "effects.example.com" denied the request`)
		if err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "v", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": nil}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		err = client.CoreV1().Secrets("default").Delete(t.Context(), "s", metav1.DeleteOptions{})
		if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `admission webhook "m.example.com" attempted to modify the object, which is not supported for this operation`) {
			t.Errorf("a patch of a deletion: %v", err)
		}
	})
}

// TestWebhookReinvocation has a webhook that sees the change of a later one only when it is called
// again.
func TestWebhookReinvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		client := controlplanetest.ClientFor(t, controlplanetest.StartWithWebhooks(t, hooks).Config())
		first := controlplanetest.MutatingWebhook("first", hooks.Handle("first", func(w http.ResponseWriter, r *http.Request, review *v1.AdmissionReview) {
			cm := &corev1.ConfigMap{}
			if err := json.Unmarshal(review.Request.Object.Raw, cm); err != nil {
				t.Error(err)
			}
			if cm.Data["second"] == "" {
				controlplanetest.Allow(w, r, review)
				return
			}
			controlplanetest.Patch(`[{"op": "add", "path": "/data/first", "value": "saw the second"}]`)(w, r, review)
		}), "configmaps")
		first.ReinvocationPolicy = new(admissionv1.IfNeededReinvocationPolicy)
		controlplanetest.CreateMutating(t, client, "a", first)
		controlplanetest.CreateMutating(t, client, "b", controlplanetest.MutatingWebhook("second", hooks.Handle("second", controlplanetest.Patch(`[{"op": "add", "path": "/data/second", "value": "was here"}]`)), "configmaps"))
		cm, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), controlplanetest.ConfigMap("a"), metav1.CreateOptions{})
		if want := map[string]string{"k": "v", "first": "saw the second", "second": "was here"}; err != nil || !cmp.Equal(cm.Data, want) {
			t.Errorf("%v, %v", err, cm)
		}
	})
}

// TestWebhookCallsBack has webhooks that read and write in the server that calls them, also objects
// of the resource that is admitted and definitions of custom resources.
func TestWebhookCallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		plane := controlplanetest.StartWithWebhooks(t, hooks)
		client := controlplanetest.ClientFor(t, plane.Config())
		custom, err := dynamic.NewForConfig(plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		crds := custom.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		n := 0
		back := hooks.Handle("back", func(w http.ResponseWriter, r *http.Request, review *v1.AdmissionReview) {
			n++
			ctx := r.Context()
			if _, err := client.CoreV1().ConfigMaps("kube-system").Create(ctx, controlplanetest.ConfigMap(fmt.Sprintf("back-%d", n)), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			for _, read := range []func() error{
				func() error { _, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{}); return err },
				func() error {
					_, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
					return err
				},
				func() error { _, err := crds.List(ctx, metav1.ListOptions{}); return err },
				func() error {
					_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, "m", types.MergePatchType,
						fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, n), metav1.PatchOptions{})
					return err
				},
			} {
				if err := read(); err != nil {
					t.Error(err)
				}
			}
			controlplanetest.Allow(w, r, review)
		})
		selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}}}}
		mutating, validating := controlplanetest.MutatingWebhook("m", back, "*"), controlplanetest.ValidatingWebhook("v", back, "*")
		mutating.NamespaceSelector, validating.NamespaceSelector = selector, selector
		controlplanetest.CreateMutating(t, client, "m", mutating)
		controlplanetest.CreateValidating(t, client, "v", validating)
		ctx := t.Context()
		for i, do := range []func() error{
			func() error {
				_, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("a"), metav1.CreateOptions{})
				return err
			},
			func() error {
				_, err := client.CoreV1().ConfigMaps("default").Update(ctx, controlplanetest.ConfigMap("a"), metav1.UpdateOptions{})
				return err
			},
			func() error {
				_, err := crds.Create(ctx, controlplanetest.Decode(t, controlplanetest.Widgets), metav1.CreateOptions{})
				return err
			},
			func() error {
				_, err := crds.Patch(ctx, "widgets.example.com", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
				return err
			},
			func() error { return crds.Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}) },
			func() error { return client.CoreV1().ConfigMaps("default").Delete(ctx, "a", metav1.DeleteOptions{}) },
		} {
			before := n
			if err := do(); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
			if n < before+2 {
				t.Errorf("request %d: the webhooks were called %d times", i, n-before)
			}
		}
	})
}

// TestWebhookOutlivesRequest ends a request during a call of its webhook, and stops the control plane.
func TestWebhookOutlivesRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		client := controlplanetest.ClientFor(t, controlplanetest.StartWithWebhooks(t, hooks).Config())
		called := make(chan struct{})
		controlplanetest.CreateValidating(t, client, "x", controlplanetest.ValidatingWebhook("x", hooks.Handle("x", func(_ http.ResponseWriter, r *http.Request, _ *v1.AdmissionReview) {
			close(called)
			<-r.Context().Done()
		}), "configmaps"))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-called; cancel() }()
		if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("a"), metav1.CreateOptions{}); err == nil {
			t.Error("created")
		}
	})
}

// TestWebhookOutlivesTimeout tests webhooks that take longer than the request may, because of the request's own timeout
// or the general one. The request must fail, whatever the failure policy. If the call and the request time out at the
// same time, either error may be the response.
func TestWebhookOutlivesTimeout(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	for _, tc := range []struct {
		policy  admissionv1.FailurePolicyType
		query   string
		answers []string
	}{
		{admissionv1.Ignore, "", []string{"request did not complete within requested timeout"}},
		{admissionv1.Ignore, "?timeout=1s", []string{"request did not complete within requested timeout"}},
		{admissionv1.Fail, "?timeout=1s", []string{"request did not complete within requested timeout", "failed calling webhook"}},
	} {
		for _, kind := range []string{"mutating", "validating"} {
			if kind == "validating" && tc.query == "" {
				continue // all are called at once, and end before the request
			}
			t.Run(fmt.Sprint(tc.policy, tc.query, kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					hooks := controlplanetest.ServeWebhooks(t)
					plane := controlplanetest.StartWithWebhooks(t, hooks)
					client, send := controlplanetest.ClientFor(t, plane.Config()), controlplanetest.Sender(t, plane.Config())
					hang := hooks.Handle("x", func(_ http.ResponseWriter, r *http.Request, _ *v1.AdmissionReview) { <-r.Context().Done() })
					if code, body := send(http.MethodPost, maps, "application/json", `{"metadata":{"name":"there"}}`); code != http.StatusCreated {
						t.Fatalf("%d %s", code, body)
					}
					_, before := send(http.MethodGet, maps+"/there", "", "")
					for n := range 3 {
						name := fmt.Sprintf("x%d", n)
						mutating, validating := controlplanetest.MutatingWebhook(name, hang, "configmaps"), controlplanetest.ValidatingWebhook(name, hang, "configmaps")
						mutating.FailurePolicy, validating.FailurePolicy = &tc.policy, &tc.policy
						mutating.TimeoutSeconds = new(int32(30))
						if kind == "mutating" {
							controlplanetest.CreateMutating(t, client, name, mutating)
						} else {
							controlplanetest.CreateValidating(t, client, name, validating)
						}
					}
					for _, r := range [][4]string{
						{http.MethodPost, maps, "application/json", `{"metadata":{"name":"new"}}`},
						{http.MethodPut, maps + "/there", "application/json", `{"metadata":{"name":"there"},"data":{"a":"b"}}`},
						{http.MethodPatch, maps + "/there", "application/merge-patch+json", `{"data":{"a":"b"}}`},
						{http.MethodPatch, maps + "/there", "application/json-patch+json", `[{"op":"add","path":"/data","value":{"a":"b"}}]`},
						{http.MethodDelete, maps + "/there", "", ""},
					} {
						code, body := send(r[0], r[1]+tc.query, r[2], r[3])
						if !slices.ContainsFunc(tc.answers, func(a string) bool { return code >= 500 && strings.Contains(string(body), a) }) {
							t.Errorf("%s %s: %d %s", r[0], r[2], code, body)
						}
						synctest.Wait()
						code, _ = send(http.MethodGet, maps+"/new", "", "")
						if _, after := send(http.MethodGet, maps+"/there", "", ""); string(after) != string(before) || code != http.StatusNotFound {
							t.Errorf("%s %s was carried out: %s, new: %d", r[0], r[2], after, code)
						}
					}
				})
			})
		}
	}
}

var _ rest.WarningHandler = (*controlplanetest.Warnings)(nil)

// TestWebhookService tests a webhook with a service that changes its address.
func TestWebhookService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := controlplanetest.ServeWebhooks(t)
		plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, DialWebhook: hooks.Dial, LoopbackPorts: []uint16{9443}})
		client := controlplanetest.ClientFor(t, plane.Config())
		configuration := hooks.Handle("service", controlplanetest.Patch(`[{"op": "add", "path": "/data/called", "value": "yes"}]`))
		configuration.URL = nil
		configuration.Service = &admissionv1.ServiceReference{Namespace: "default", Name: "hook", Path: new("/service")}
		controlplanetest.CreateMutating(t, client, "m", controlplanetest.MutatingWebhook("m", configuration, "configmaps"))
		services, slices := client.CoreV1().Services("default"), client.DiscoveryV1().EndpointSlices("default")
		ctx := t.Context()
		replace := func(annotations map[string]string, spec corev1.ServiceSpec) func() error {
			return func() error {
				_ = services.Delete(ctx, "hook", metav1.DeleteOptions{})
				_, err := services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook", Annotations: annotations}, Spec: spec}, metav1.CreateOptions{})
				return err
			}
		}
		clusterIP := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}
		const failed = `Internal error occurred: failed calling webhook "m.example.com": failed to call webhook: Post "https://hook.default.svc:443/service?timeout=10s": `
		for i, tc := range []struct {
			name   string
			change func() error
			dialed string // or
			want   string
		}{
			{"no service", func() error { return nil }, "", failed + `service "hook" not found`},
			{"no endpoints", replace(nil, clusterIP), "", failed + `no endpoints available for service "hook"`},
			{"endpoints", func() error {
				_, err := slices.Create(ctx, &discoveryv1.EndpointSlice{
					ObjectMeta:  metav1.ObjectMeta{Name: "hook", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
					AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(8443))}},
					Endpoints: []discoveryv1.Endpoint{
						{Addresses: []string{"10.1.2.3"}},
						{Addresses: []string{"10.1.2.4"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
					},
				}, metav1.CreateOptions{})
				return err
			}, "10.1.2.3:8443", ""},
			{"another port", replace(nil, corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8443}}}), "", failed + `no service port 443 found for service "hook"`},
			{"a loopback port", replace(map[string]string{"flyball.dev/loopback-port": "9443"}, clusterIP), "127.0.0.1:9443", ""},
			{"a loopback port that is not permitted", replace(map[string]string{"flyball.dev/loopback-port": "22"}, clusterIP), "",
				failed + `annotation flyball.dev/loopback-port of service "hook": the starter of the control plane has not permitted the port 22, as docs/webhooks.md#services explains`},
			{"no loopback port", replace(map[string]string{"flyball.dev/loopback-port": "https"}, clusterIP), "", failed + `annotation flyball.dev/loopback-port of service "hook": "https" is not a port`},
			{"an external name", replace(nil, corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "hooks.example.org"}), "hooks.example.org:443", ""},
		} {
			if err := tc.change(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			hooks.HangUp()
			hooks.Address = tc.dialed
			cm, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap(fmt.Sprintf("cm-%d", i)), metav1.CreateOptions{})
			switch {
			case tc.want == "" && (err != nil || cm.Data["called"] != "yes"):
				t.Errorf("%s: %v", tc.name, err)
			case tc.want != "" && (err == nil || err.Error() != tc.want):
				t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
			}
		}
	})
}

// TestWebhookOverTCP calls a webhook over a socket. The idle connection ends with the control plane,
// which TestMain checks.
func TestWebhookOverTCP(t *testing.T) {
	hooks := &controlplanetest.WebhookServer{}
	server := httptest.NewTLSServer(hooks)
	t.Cleanup(server.Close)
	hooks.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	configuration := hooks.Handle("tcp", controlplanetest.Patch(`[{"op": "add", "path": "/data/called", "value": "yes"}]`))
	configuration.URL = new(server.URL + "/tcp")
	client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
	controlplanetest.CreateMutating(t, client, "m", controlplanetest.MutatingWebhook("m", configuration, "configmaps"))
	cm, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), controlplanetest.ConfigMap("a"), metav1.CreateOptions{})
	if err != nil || cm.Data["called"] != "yes" {
		t.Errorf("%v, %v", err, cm)
	}
	change := []byte(`[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]`)
	if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), "m", types.JSONPatchType, change, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), controlplanetest.ConfigMap("b"), metav1.CreateOptions{})
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "x509: certificate signed by unknown authority") {
		t.Errorf("without the CA: %v", err)
	}
}
