package serviceaccount_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
)

const issuer = "https://kubernetes.default.svc.cluster.local"

// TestServiceAccountTokens requests tokens, uses them, and waits or deletes until they are invalid.
func TestServiceAccountTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := plane.Stop(); err != nil {
				t.Error(err)
			}
		}()
		admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
		accounts := admin.CoreV1().ServiceAccounts("default")
		create := func(name string) *corev1.ServiceAccount {
			return controlplanetest.Must[*corev1.ServiceAccount](t)(accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
		}
		account := create("robot")
		pod := controlplanetest.ExamplePod(1)
		pod.Spec.ServiceAccountName, pod.Spec.NodeName = "robot", "n1"
		pod = controlplanetest.Must[*corev1.Pod](t)(admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
		secret := controlplanetest.Must[*corev1.Secret](t)(admin.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}))
		node := controlplanetest.Must[*corev1.Node](t)(admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{}))
		request := func(spec authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequest, error) {
			return accounts.CreateToken(ctx, "robot", &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
		}
		token := func(spec authenticationv1.TokenRequestSpec) string {
			t.Helper()
			return controlplanetest.Must[*authenticationv1.TokenRequest](t)(request(spec)).Status.Token
		}
		bound := func(kind, name string) authenticationv1.TokenRequestSpec {
			return authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: kind, APIVersion: "v1", Name: name}}
		}
		with := func(token string) *kubernetes.Clientset {
			cfg := plane.Config()
			cfg.BearerToken = token
			return controlplanetest.ClientFor(t, cfg)
		}
		whoAmI := func(token string) (authenticationv1.UserInfo, error) {
			got, err := with(token).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				return authenticationv1.UserInfo{}, err
			}
			return got.Status.UserInfo, nil
		}
		review := func(token string, audiences ...string) authenticationv1.TokenReviewStatus {
			return controlplanetest.Must[*authenticationv1.TokenReview](t)(admin.AuthenticationV1().TokenReviews().Create(ctx,
				&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}, metav1.CreateOptions{})).Status
		}
		invalid := func(name, token, want string) {
			t.Helper()
			if _, err := whoAmI(token); !apierrors.IsUnauthorized(err) {
				t.Errorf("%s: %v", name, err)
			}
			if got := review(token); got.Authenticated || !strings.Contains(got.Error, want) || strings.Contains(got.Error, token) {
				t.Errorf("%s: review %+v, want the error %s", name, got, want)
			}
		}

		plain := token(authenticationv1.TokenRequestSpec{})
		who, err := whoAmI(plain)
		if err != nil || who.Username != "system:serviceaccount:default:robot" || who.UID != string(account.UID) ||
			!slices.Equal(who.Groups, []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}) {
			t.Errorf("the user is %+v, %v", who, err)
		}
		if _, err := with(plain).CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("not authorized, but %v", err)
		}
		ofPod := token(bound("Pod", pod.Name))
		if who, err := whoAmI(ofPod); err != nil || who.Extra["authentication.kubernetes.io/pod-name"][0] != pod.Name ||
			who.Extra["authentication.kubernetes.io/node-uid"][0] != string(node.UID) {
			t.Errorf("bound to a pod: %+v, %v", who, err)
		}
		ofSecret, ofNode := token(bound("Secret", secret.Name)), token(bound("Node", node.Name))

		elsewhere := token(authenticationv1.TokenRequestSpec{Audiences: []string{"vault", "other"}})
		invalid("wrong audience", elsewhere, `token audiences ["vault" "other"] is invalid for the target audiences ["`+issuer+`"]`)
		if got := review(elsewhere, "vault", "x"); !got.Authenticated || !slices.Equal(got.Audiences, []string{"vault"}) {
			t.Errorf("review for the audience: %+v", got)
		}
		if got := review(plain, "vault"); got.Authenticated {
			t.Errorf("review for another audience: %+v", got)
		}

		for name, tc := range map[string]struct {
			spec authenticationv1.TokenRequestSpec
			want string
		}{
			"too short": {authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(599))}, "may not specify a duration less than 10 minutes"},
			"too long":  {authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(1<<32 + 1))}, "may not specify a duration larger than 2^32 seconds"},
			"kind":      {bound("ConfigMap", "x"), "cannot bind token to object of type /v1, Kind=ConfigMap"},
			"no pod":    {bound("Pod", "none"), `pods "none" not found`},
			"wrong UID": {authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: "s", UID: "x"}}, "does not match the UID in record"},
		} {
			if got, err := request(tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) || got != nil && got.Status.Token != "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		create("other")
		if _, err := accounts.CreateToken(ctx, "other", &authenticationv1.TokenRequest{Spec: bound("Pod", pod.Name)}, metav1.CreateOptions{}); err == nil ||
			!strings.Contains(err.Error(), `cannot bind token for serviceaccount "other" to pod running with different serviceaccount name.`) {
			t.Errorf("the pod of another account: %v", err)
		}
		if _, err := accounts.CreateToken(ctx, "nobody", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("no account: %v", err)
		}

		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		for name, del := range map[string]func() error{
			"pod":    func() error { return admin.CoreV1().Pods("default").Delete(ctx, pod.Name, now) },
			"secret": func() error { return admin.CoreV1().Secrets("default").Delete(ctx, secret.Name, now) },
			"node":   func() error { return admin.CoreV1().Nodes().Delete(ctx, node.Name, now) },
		} {
			if err := del(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		invalid("deleted pod", ofPod, "service account token has been invalidated")
		invalid("deleted secret", ofSecret, "service account token has been invalidated")
		invalid("deleted node", ofNode, "service account token has been invalidated")

		time.Sleep(time.Hour + 2*time.Minute) // in virtual time
		invalid("expired", plain, "service account token has expired")
		plain = token(authenticationv1.TokenRequestSpec{})
		if err := accounts.Delete(ctx, "robot", now); err != nil {
			t.Fatal(err)
		}
		invalid("deleted account", plain, `serviceaccounts "robot" not found`)
		create("robot")
		invalid("account of another UID", plain, "does not match claim")
	})
}

func TestIssuerDiscovery(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	send := controlplanetest.Sender(t, plane.Config())
	get := func(path string, into any) {
		t.Helper()
		code, body := send("GET", path, "", "")
		if code != 200 {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		if err := json.Unmarshal(body, into); err != nil {
			t.Fatal(err)
		}
	}
	var configuration struct {
		Issuer  string
		KeysURI string `json:"jwks_uri"`
	}
	get("/.well-known/openid-configuration", &configuration)
	var keys struct {
		Keys []struct{ Kty, Alg, Crv, X, Y, D string }
	}
	get("/openid/v1/jwks", &keys)
	if configuration.Issuer != issuer || !strings.HasSuffix(configuration.KeysURI, "/openid/v1/jwks") ||
		len(keys.Keys) != 1 || keys.Keys[0].Alg != "ES256" || keys.Keys[0].X == "" || keys.Keys[0].D != "" {
		t.Errorf("%+v, %+v", configuration, keys)
	}
}
