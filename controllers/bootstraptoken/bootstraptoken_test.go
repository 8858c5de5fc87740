package bootstraptoken_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestMain(m *testing.M) { controllerstest.Main(m) }

// token returns a bootstrap token that may sign.
func token(id string, change ...func(s *corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"}}
	for _, c := range change {
		c(s)
	}
	return s
}

// expiring sets the time at which a token expires.
func expiring(at string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.StringData["expiration"] = at }
}

func after(d time.Duration) func(*corev1.Secret) {
	return expiring(time.Now().Add(d).Format(time.RFC3339))
}

// names returns the names of the bootstrap tokens.
func names(e controllerstest.Env) (all []string) {
	e.Helper()
	e.WaitIdle()
	secrets := &corev1.SecretList{}
	e.Must(e.List(e.Context(), secrets))
	for _, s := range secrets.Items {
		if id, ok := strings.CutPrefix(s.Name, "bootstrap-token-"); ok {
			all = append(all, id)
		}
	}
	return all
}

// TestCleaner deletes tokens that expire, unless they are no tokens.
func TestCleaner(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{With: []string{"token-cleaner-controller"}}, func(e controllerstest.Env) {
		e.CreateAll(token("aaaaaa"), token("bbbbbb", after(time.Hour)), token("cccccc", after(-time.Hour)), token("dddddd", expiring("soon")),
			token("eeeeee", after(time.Minute), func(s *corev1.Secret) { s.Type = "Opaque" }),
			token("ffffff", after(time.Minute), func(s *corev1.Secret) { s.Namespace = "default" }))
		for _, want := range []string{"ffffff aaaaaa bbbbbb eeeeee", "ffffff aaaaaa eeeeee"} {
			if got := strings.Join(names(e), " "); got != want {
				t.Errorf("the tokens are %s, want %s", got, want)
			}
			time.Sleep(time.Hour) // virtual
		}
	})
}

// TestOffByDefault: nothing deletes expired tokens by default.
func TestOffByDefault(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(token("aaaaaa", after(-time.Hour)))
		if got := names(e); len(got) != 1 {
			t.Errorf("the tokens are %q", got)
		}
	})
}

// TestSigner signs the ConfigMap with the tokens that may sign, while there are such.
func TestSigner(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{With: []string{"bootstrap-signer-controller"}}, func(e controllerstest.Env) {
		info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: map[string]string{"jws-kubeconfig-old": "x"}}
		e.CreateAll(info, token("aaaaaa"), token("bbbbbb", after(time.Hour)), token("cccccc", after(-time.Hour)),
			token("dddddd", func(s *corev1.Secret) { delete(s.StringData, "usage-bootstrap-signing") }),
			token("eeeeee", func(s *corev1.Secret) { s.StringData["token-id"] = "abcdef" }),
			token("ffffff", func(s *corev1.Secret) { s.Namespace = "default" }),
			token("gggggg", func(s *corev1.Secret) { s.Type = "Opaque" }),
			token("hhhhhh", func(s *corev1.Secret) { delete(s.StringData, "token-secret") }))
		want := func(keys ...string) {
			e.Helper()
			e.WaitIdle()
			e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(info), info))
			if got := slices.Sorted(maps.Keys(info.Data)); !slices.Equal(got, keys) {
				t.Errorf("the keys are %q, want %q", got, keys)
			}
		}
		want("jws-kubeconfig-old") // without a text
		info.Data["kubeconfig"] = "a text"
		e.Must(e.Update(e.Context(), info))
		want("jws-kubeconfig-aaaaaa", "jws-kubeconfig-bbbbbb", "kubeconfig")
		first := info.Data["jws-kubeconfig-aaaaaa"]
		info.Data["kubeconfig"] = "another text"
		e.Must(e.Update(e.Context(), info))
		e.Must(e.Delete(e.Context(), token("bbbbbb")))
		want("jws-kubeconfig-aaaaaa", "kubeconfig")
		if info.Data["jws-kubeconfig-aaaaaa"] == first {
			t.Error("the signature is the same for another text")
		}
	})
}
