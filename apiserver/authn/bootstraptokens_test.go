package authn_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
)

const bootstrapToken = "abcdef.0123456789abcdef"

// bootstrapSecret returns the Secret of a bootstrap token.
func bootstrapSecret(change func(data map[string]string)) *corev1.Secret {
	data := map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
		"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"}
	if change != nil {
		change(data)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
		Type: "bootstrap.kubernetes.io/token", StringData: data}
}

func withToken(t *testing.T, plane *controlplane.ControlPlane, token string) *kubernetes.Clientset {
	cfg := plane.Config()
	cfg.BearerToken = token
	return controlplanetest.ClientFor(t, cfg)
}

func TestBootstrapTokens(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	secrets := controlplanetest.ClientFor(t, plane.Config()).CoreV1().Secrets("kube-system")
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		token  string
		groups []string // none if the token is not valid
	}{
		"valid": {bootstrapSecret(nil), bootstrapToken, []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"}},
		"expires later": {bootstrapSecret(func(d map[string]string) {
			d["expiration"] = time.Now().Add(time.Hour).Format(time.RFC3339)
			delete(d, "auth-extra-groups")
		}), bootstrapToken, []string{"system:bootstrappers", "system:authenticated"}},
		"expired":        {bootstrapSecret(func(d map[string]string) { d["expiration"] = time.Now().Add(-time.Hour).Format(time.RFC3339) }), bootstrapToken, nil},
		"no time":        {bootstrapSecret(func(d map[string]string) { d["expiration"] = "soon" }), bootstrapToken, nil},
		"wrong password": {bootstrapSecret(nil), "abcdef.0123456789abcdeX", nil},
		"other password": {bootstrapSecret(nil), "abcdef.0123456789abcdee", nil},
		"other ID":       {bootstrapSecret(func(d map[string]string) { d["token-id"] = "fedcba" }), bootstrapToken, nil},
		"other usage":    {bootstrapSecret(func(d map[string]string) { delete(d, "usage-bootstrap-authentication") }), bootstrapToken, nil},
		"bad group":      {bootstrapSecret(func(d map[string]string) { d["auth-extra-groups"] = "system:masters" }), bootstrapToken, nil},
		"no secret":      {bootstrapSecret(nil), "aaaaaa.0123456789abcdef", nil},
	} {
		if _, err := secrets.Create(t.Context(), tc.secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := withToken(t, plane, tc.token).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		switch {
		case tc.groups == nil:
			if !apierrors.IsUnauthorized(err) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		case err != nil || got.Status.UserInfo.Username != "system:bootstrap:abcdef" || !slices.Equal(got.Status.UserInfo.Groups, tc.groups):
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err := secrets.Delete(t.Context(), tc.secret.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKubeletBootstrap requests the client certificate of a kubelet with a bootstrap token, with and without the role
// that approves the request, and waits until the requests are deleted.
func TestKubeletBootstrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := slices.DeleteFunc(controllers.Names(), func(name string) bool { return strings.HasPrefix(name, "certificatesigningrequest-") })
		plane, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: controllers.Options{Without: others}})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
		if _, err := admin.CoreV1().Secrets("kube-system").Create(ctx, bootstrapSecret(nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		bind := func(name, role string) {
			_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers"}}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		bind("bootstrap", "system:node-bootstrapper")
		requests := withToken(t, plane, bootstrapToken).CertificatesV1().CertificateSigningRequests()
		all := admin.CertificatesV1().CertificateSigningRequests()
		ask := func(name string) {
			if _, err := requests.Create(ctx, kubeletRequest(t, name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		status := func(name string) (conditions int, issued bool) {
			synctest.Wait()
			csr, err := all.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return len(csr.Status.Conditions), len(csr.Status.Certificate) > 0
		}
		ask("pending")
		if conditions, issued := status("pending"); conditions != 0 || issued {
			t.Errorf("without the role: %d conditions, issued %v", conditions, issued)
		}
		bind("approve", "system:certificates.k8s.io:certificatesigningrequests:nodeclient")
		ask("approved")
		if conditions, issued := status("approved"); conditions != 1 || !issued {
			t.Errorf("with the role: %d conditions, issued %v", conditions, issued)
		}
		left := func() (names []string) {
			synctest.Wait()
			list, err := all.List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, csr := range list.Items {
				names = append(names, csr.Name)
			}
			return names
		}
		for _, step := range []struct {
			wait time.Duration
			want []string
		}{{59 * time.Minute, []string{"approved", "pending"}}, {2 * time.Minute, []string{"pending"}}, {24 * time.Hour, nil}} {
			time.Sleep(step.wait) // virtual
			if got := left(); !slices.Equal(got, step.want) {
				t.Errorf("after %s more there are %q, want %q", step.wait, got, step.want)
			}
		}
	})
}

// kubeletRequest returns a request for the client certificate of the kubelet of a node.
func kubeletRequest(t *testing.T, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	}}
}
