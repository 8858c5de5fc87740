package controlplanetest

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
)

// Forbidden checks that a plugin has rejected a request, and that the message contains a text.
func Forbidden(t testing.TB, err error, part string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v, want 403 with %q", err, part)
	}
}

// Sender returns a function that sends a request and returns the status code and the body of the response.
func Sender(t *testing.T, cfg *rest.Config) func(method, path, contentType, body string) (int, []byte) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return func(method, path, contentType, body string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if contentType != "" {
			req.Header.Set("Content-Type", contentType)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, answer
	}
}

// ClientFor returns a client without a rate limit. It encodes objects in protobuf.
func ClientFor(tb testing.TB, cfg *rest.Config) *kubernetes.Clientset {
	tb.Helper()
	cfg.QPS = -1
	cfg.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// As returns a client that impersonates a user.
func As(t testing.TB, plane *controlplane.ControlPlane, name string, groups ...string) *kubernetes.Clientset {
	cfg := plane.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return ClientFor(t, cfg)
}

// Must fails the test if a call failed.
func Must[T any](t testing.TB) func(T, error) T {
	return func(result T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

// PolicyRule returns a rule for one API group. verbs and resources are separated by commas.
func PolicyRule(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group},
		Resources: strings.Split(resources, ","), ResourceNames: names}
}

// GrantCluster creates a ClusterRole with the rules, and binds a user to it.
func GrantCluster(t testing.TB, admin *kubernetes.Clientset, name, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	access := admin.RbacV1()
	Must[*rbacv1.ClusterRole](t)(access.ClusterRoles().Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}))
	Must[*rbacv1.ClusterRoleBinding](t)(access.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
	}, metav1.CreateOptions{}))
}

// Refused checks that a request was forbidden with the given message.
func Refused(t testing.TB, err error, want string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Warnings records the warnings of a client.
type Warnings struct {
	mu  sync.Mutex
	all []string
}

// HandleWarningHeader implements [rest.WarningHandler].
func (w *Warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// Take returns the warnings since the last call.
func (w *Warnings) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}
