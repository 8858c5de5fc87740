package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"flyball.dev/controlplane/controlplanetest"

	v1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/controlplane"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// creation is a request that creates an object.
type creation struct {
	name, method, group string
	path                string // relative to a namespace
	contentType, body   string
	fallback            string // the reason why the fast path does not support it
}

// creations are requests for all ways to create an object.
var creations = []creation{
	{"POST", http.MethodPost, "/api/v1", "/secrets", "application/json", `{"metadata":{"name":"late"}}`, ""},
	{"generateName", http.MethodPost, "/api/v1", "/secrets", "application/json", `{"metadata":{"generateName":"late-"}}`, ""},
	{"an allocation", http.MethodPost, "/api/v1", "/services", "application/json", `{"metadata":{"name":"late"},"spec":{"clusterIP":"10.96.0.77","ports":[{"port":80}]}}`, ""},
	{"an expiry", http.MethodPost, "/api/v1", "/events", "application/json", `{"metadata":{"name":"late"},"involvedObject":{"namespace":"NAMESPACE"},"type":"Normal"}`, ""},
	{"PUT", http.MethodPut, "/apis/coordination.k8s.io/v1", "/leases/late", "application/json", `{"metadata":{"name":"late"},"spec":{"holderIdentity":"me"}}`, "missing"},
	{"apply", http.MethodPatch, "/api/v1", "/configmaps/late?fieldManager=me", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"late"}}`, "missing"},
	{"POST of a custom resource", http.MethodPost, "/apis/example.com/v1", "/widgets", "application/json", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"late"},"spec":{"image":"i"}}`, ""},
	{"apply of a custom resource", http.MethodPatch, "/apis/example.com/v1", "/widgets/late?fieldManager=me", "application/apply-patch+yaml", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"late"},"spec":{"image":"i"}}`, "missing"},
}

// took returns the path of the request.
func (c creation) took(withoutFastPath bool) endpointstest.Path {
	switch {
	case withoutFastPath:
		return endpointstest.SwitchedOff
	case c.fallback != "":
		return endpointstest.Fallback(c.fallback)
	}
	return endpointstest.Fast
}

// resource returns the name of the resource.
func (c creation) resource() string {
	return strings.FieldsFunc(c.path, func(r rune) bool { return r == '/' || r == '?' })[0]
}

// onBothPaths runs a test in a bubble with the fast path, and without it.
func onBothPaths(t *testing.T, test func(t *testing.T, withoutFastPath bool)) {
	for name, withoutFastPath := range map[string]bool{"fast path": false, "fallback": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, withoutFastPath) })
		})
	}
}

// TestCreationOutlivedByNamespace has webhooks that hold requests for new objects, while the namespace
// is deleted or changed. An object must not be created in a namespace that is gone or terminating.
func TestCreationOutlivedByNamespace(t *testing.T) {
	const terminating = `unable to create new content in namespace doomed-0 because it is being terminated`
	remove := func(t *testing.T, client kubernetes.Interface, name string) {
		t.Helper()
		namespaces := client.CoreV1().Namespaces()
		if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := namespaces.Finalize(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, meanwhile := range []struct {
		name    string
		change  func(t *testing.T, client kubernetes.Interface, name string)
		code    int // 2xx for zero
		message string
		disable []string
	}{
		{name: "nothing", change: func(*testing.T, kubernetes.Interface, string) {}},
		{name: "labelled", change: func(t *testing.T, client kubernetes.Interface, name string) {
			_, err := client.CoreV1().Namespaces().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}},
		{name: "terminating", change: func(t *testing.T, client kubernetes.Interface, name string) {
			if err := client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, code: http.StatusForbidden, message: terminating},
		{name: "gone", change: remove, code: http.StatusNotFound, message: `namespaces "doomed-0" not found`},
		{name: "created again", change: func(t *testing.T, client kubernetes.Interface, name string) {
			remove(t, client, name)
			createNamespace(t, client, name)
		}},
		{name: "gone, without the plugin", change: remove, disable: []string{"NamespaceLifecycle"}},
	} {
		t.Run(meanwhile.name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, withoutFastPath bool) {
				hooks := controlplanetest.ServeWebhooks(t)
				o := controlplane.Options{WithoutControllers: true, WithoutFastPath: withoutFastPath, DialWebhook: hooks.Dial, Storage: memory.New(memory.Options{})}
				o.Admission.Disable = meanwhile.disable
				cfg := controlplanetest.Start(t, o).Config()
				client, send := controlplanetest.ClientFor(t, cfg), controlplanetest.Sender(t, cfg)
				if status, body := send(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", controlplanetest.Widgets); status != http.StatusCreated {
					t.Fatalf("the definition: %d %s", status, body)
				}
				arrived, release := make(chan bool), make(chan bool)
				hold := func(w http.ResponseWriter, r *http.Request, review *v1.AdmissionReview) {
					arrived <- true
					<-release
					controlplanetest.Allow(w, r, review)
				}
				for _, phase := range []string{"mutating", "validating"} {
					config := hooks.Handle("hold", hold)
					if phase == "mutating" {
						hook := controlplanetest.MutatingWebhook("hold", config, "*")
						hook.Rules = namespacedCreates()
						controlplanetest.CreateMutating(t, client, phase, hook)
					} else {
						hook := controlplanetest.ValidatingWebhook("hold", config, "*")
						hook.Rules = namespacedCreates()
						controlplanetest.CreateValidating(t, client, phase, hook)
					}
					for i, c := range creations {
						name := fmt.Sprintf("doomed-%d", i)
						createNamespace(t, client, name)
						var status int
						var body []byte
						done := make(chan bool)
						paths := endpointstest.Count(t, c.resource(), endpointstest.Writes...)
						go func() {
							defer close(done)
							status, body = send(c.method, c.group+"/namespaces/"+name+c.path, c.contentType, strings.ReplaceAll(c.body, "NAMESPACE", name))
						}()
						<-arrived
						meanwhile.change(t, client, name)
						release <- true
						<-done
						paths().Require(t, c.took(withoutFastPath), 1)
						checkCreation(t, phase+", "+c.name, status, body, meanwhile.code, strings.ReplaceAll(meanwhile.message, "doomed-0", name))
						exist := meanwhile.code == 0
						if keys := keysIn(t, o.Storage, name); exist != (len(keys) > 0) {
							t.Errorf("%s, %s: the namespace has %q", phase, c.name, keys)
						}
						remove := client.CoreV1().RESTClient().Delete().AbsPath(strings.Split(c.group+"/namespaces/"+name+c.path, "?")[0])
						if c.method == http.MethodPost && exist {
							remove = remove.Suffix(lastName(keysIn(t, o.Storage, name)))
						}
						if err := remove.Do(t.Context()).Error(); exist && err != nil {
							t.Fatal(err)
						}
						send(http.MethodDelete, "/api/v1/namespaces/"+name, "", "")
						send(http.MethodPut, "/api/v1/namespaces/"+name+"/finalize", "application/json", `{"metadata":{"name":"`+name+`"}}`)
					}
					send(http.MethodDelete, "/apis/admissionregistration.k8s.io/v1/"+phase+"webhookconfigurations/"+phase, "", "")
				}
			})
		})
	}
}

// namespacedCreates matches the creations of objects in namespaces.
func namespacedCreates() []admissionv1.RuleWithOperations {
	rules := controlplanetest.WebhookRule("*", admissionv1.Create)
	rules[0].Scope = new(admissionv1.NamespacedScope)
	return rules
}

func createNamespace(t testing.TB, client kubernetes.Interface, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// checkCreation checks the answer to the creation of an object: success if code is zero.
func checkCreation(t *testing.T, name string, status int, body []byte, code int, message string) {
	t.Helper()
	if code == 0 {
		if status/100 != 2 {
			t.Errorf("%s: %d %s", name, status, body)
		}
		return
	}
	got := &metav1.Status{}
	if err := json.Unmarshal(body, got); err != nil || status != code || !strings.Contains(got.Message, message) {
		t.Errorf("%s: %d %s, want %d %s", name, status, body, code, message)
	}
	err := apierrors.FromObject(got)
	if terminating := code == http.StatusForbidden; terminating != apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("%s: causes %+v", name, got.Details)
	}
}

// keysIn returns the keys of the stored objects in a namespace.
func keysIn(t testing.TB, s storage.Store, namespace string) []string {
	t.Helper()
	page, err := s.Range(context.Background(), storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, r := range page.Records {
		if path.Base(path.Dir(r.Key)) == namespace {
			keys = append(keys, r.Key)
		}
	}
	return keys
}

func lastName(keys []string) string {
	return keys[len(keys)-1][strings.LastIndex(keys[len(keys)-1], "/"):]
}

// TestDeletedNamespacesAreEmpty lets eight writers write in namespaces that are repeatedly deleted and created.
// Whenever a namespace is gone, it must be empty, and all objects created in it must have been deleted.
func TestDeletedNamespacesAreEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, rounds = 8, 12
		backend := memory.New(memory.Options{})
		client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{Storage: backend}).Config())
		namespaces := client.CoreV1().Namespaces()
		var writing sync.WaitGroup
		stop := make(chan struct{})
		refused := make([]int, writers)
		for i := range writers {
			writing.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					_, err := client.CoreV1().ConfigMaps("doomed").Create(context.Background(), controlplanetest.ConfigMap(fmt.Sprintf("late-%d-%d", i, n)), metav1.CreateOptions{})
					switch {
					case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
						refused[i]++
					case err != nil:
						t.Error(err)
						return
					}
				}
			})
		}
		for range rounds {
			createNamespace(t, client, "doomed")
			w, err := namespaces.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=doomed"})
			if err != nil {
				t.Fatal(err)
			}
			if err := namespaces.Delete(t.Context(), "doomed", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			for e := range w.ResultChan() {
				if e.Type == "DELETED" {
					break
				}
			}
			w.Stop()
			if keys := keysIn(t, backend, "doomed"); len(keys) > 0 {
				t.Errorf("the namespace is gone, but there are %q", keys)
				break
			}
		}
		close(stop)
		writing.Wait()
		if slices.Min(refused) == 0 {
			t.Errorf("refused: %d", refused)
		}
	})
}
