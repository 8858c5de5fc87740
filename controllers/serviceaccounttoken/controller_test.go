package serviceaccounttoken_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestServiceAccountTokenSecrets creates a Secret for the token of a service account, uses the token
// and deletes the account.
func TestServiceAccountTokenSecrets(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}
		opaque := secret.DeepCopy()
		opaque.Name, opaque.Type = "opaque", corev1.SecretTypeOpaque
		e.CreateAll(account, secret, opaque)
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(secret), secret))
		published := &corev1.ConfigMap{}
		e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "kube-root-ca.crt"}, published))
		if ca, namespace := string(secret.Data["ca.crt"]), string(secret.Data["namespace"]); ca == "" ||
			ca != published.Data["ca.crt"] || namespace != "default" || secret.Annotations[corev1.ServiceAccountUIDKey] != string(account.UID) {
			t.Errorf("certificate %q, namespace %q, annotations %v", ca, namespace, secret.Annotations)
		}
		token := string(secret.Data["token"])
		review := func() authenticationv1.TokenReviewStatus {
			r := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
			e.Must(e.Create(e.Context(), r))
			return r.Status
		}
		if s := review(); !s.Authenticated || s.User.Username != "system:serviceaccount:default:robot" {
			t.Errorf("the review of the token: %+v", s)
		}

		delete(secret.Data, "token")
		e.Must(e.Update(e.Context(), secret))
		e.WaitIdle()
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(secret), secret))
		if len(secret.Data["token"]) == 0 {
			t.Error("a token that was removed is not issued again")
		}

		e.Must(e.Delete(e.Context(), account))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
			t.Errorf("after the deletion of the service account: %v", err)
		}
		if review().Authenticated {
			t.Error("the token is valid after the deletion of its Secret")
		}
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(opaque), opaque))
		if len(opaque.Data) > 0 {
			t.Errorf("a Secret of another type has %d keys", len(opaque.Data))
		}
	})
}
