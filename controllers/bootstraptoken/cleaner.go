// Package bootstraptoken has the controllers of bootstrap tokens, by which nodes join a cluster of kubeadm: one deletes expired
// tokens, and one signs the ConfigMap cluster-info with the others.
package bootstraptoken

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
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
	return builder.ControllerManagedBy(mgr).Named("token-cleaner").For(&corev1.Secret{}, isToken).Complete(&cleaner{mgr.GetClient()})
}

// cleaner deletes tokens.
type cleaner struct{ client client.Client }

// Reconcile deletes a token when it expires.
//
//upstream:pkg/controller/bootstrap.TokenCleaner.evalSecret
func (c *cleaner) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := c.client.Get(ctx, req.NamespacedName, secret); err != nil || secret.Type != secretType {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	left, expired := timeLeft(secret, time.Now())
	if !expired {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	err := c.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
	if apierrors.IsConflict(err) {
		err = nil // another Secret has the name
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// timeLeft returns the time that a token has left, or 0 if it never expires. A token with a time that is not valid has expired.
//
//upstream:k8s.io/cluster-bootstrap/util/secrets.GetExpiration
func timeLeft(secret *corev1.Secret, now time.Time) (left time.Duration, expired bool) {
	text := string(secret.Data["expiration"])
	if text == "" {
		return 0, false
	}
	at, err := time.Parse(time.RFC3339, text)
	if left = at.Sub(now); err != nil || left <= 0 {
		return 0, true
	}
	return left, false
}
