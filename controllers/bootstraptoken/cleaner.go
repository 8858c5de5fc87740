// Package bootstraptoken has the controllers of bootstrap tokens, by which nodes join a cluster of kubeadm: one deletes expired
// tokens, and one signs the ConfigMap cluster-info with the others.
package bootstraptoken

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/cleaner"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
)

// secretType is the type of Secrets with bootstrap tokens.
//
//upstream:k8s.io/cluster-bootstrap/token/api.SecretTypeBootstrapToken
const secretType corev1.SecretType = "bootstrap.kubernetes.io/token"

// isToken selects the Secrets with bootstrap tokens.
var isToken = builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
	secret, ok := o.(*corev1.Secret)
	return ok && secret.Namespace == metav1.NamespaceSystem && secret.Type == secretType
}))

// AddCleanerToManager adds the controller that deletes expired tokens.
//
//upstream:pkg/controller/bootstrap.NewTokenCleaner
func AddCleanerToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("token-cleaner").
		For(&corev1.Secret{}, isToken).
		Complete(cleaner.New(mgr.GetClient(), deadline))
}

// deadline returns the time at which a token is deleted, or false if the Secret is no token or never expires.
//
//upstream:pkg/controller/bootstrap.TokenCleaner.evalSecret
func deadline(secret *corev1.Secret) (at time.Time, ok bool) {
	if secret.Type != secretType {
		return time.Time{}, false
	}
	return expiration(secret)
}

// expiration returns the time at which a token expires, or false if it never does. A token with a time that is not valid has
// expired long ago.
//
//upstream:k8s.io/cluster-bootstrap/util/secrets.GetExpiration
func expiration(secret *corev1.Secret) (at time.Time, ok bool) {
	text := string(secret.Data["expiration"])
	if text == "" {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, true
	}
	return at, true
}
