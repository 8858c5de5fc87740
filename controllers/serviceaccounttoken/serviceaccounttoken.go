// Package serviceaccounttoken writes tokens of service accounts to Secrets of the type
// kubernetes.io/service-account-token, and deletes the Secrets with their service account.
package serviceaccounttoken

import (
	"bytes"
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// expirationSeconds is the longest lifetime of a token. The token ends with its Secret.
const expirationSeconds int64 = 1 << 32

// AddToManager adds the controller, which publishes a certificate, in PEM, with the tokens. It
// caches only the metadata of Secrets, which can be many and large.
//
//upstream:pkg/controller/serviceaccount.NewTokensController
func AddToManager(mgr manager.Manager, certificate []byte) error {
	r := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), certificate: certificate}
	forAccount := predicate.NewPredicateFuncs(func(o client.Object) bool { return accountName(o) != "" })
	return builder.ControllerManagedBy(mgr).
		Named("serviceaccount-token").
		WatchesMetadata(&corev1.Secret{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(forAccount)).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(r.secretsOf)).
		Complete(r)
}

// accountName returns the name of the service account of a Secret, or "".
func accountName(secret client.Object) string {
	return secret.GetAnnotations()[corev1.ServiceAccountNameKey]
}

// reconciler reconciles a Secret.
type reconciler struct {
	client      client.Client
	live        client.Reader
	certificate []byte
}

// secretsOf maps a service account to the Secrets with its name.
//
//upstream:pkg/controller/serviceaccount.TokensController.listTokenSecrets
func (r *reconciler) secretsOf(ctx context.Context, account client.Object) []reconcile.Request {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.client.List(ctx, list, client.InNamespace(account.GetNamespace())); err != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if accountName(&list.Items[i]) == account.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile executes the next action for one Secret.
//
//upstream:pkg/controller/serviceaccount.TokensController.syncSecret
//upstream:pkg/controller/serviceaccount.TokensController.syncServiceAccount
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := r.live.Get(ctx, req.NamespacedName, secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if secret.Type != corev1.SecretTypeServiceAccountToken {
		return reconcile.Result{}, nil
	}
	// A live read, because the cache may not have the service account yet.
	account := &corev1.ServiceAccount{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: accountName(secret)}, account)
	if apierrors.IsNotFound(err) {
		account, err = nil, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	next := nextStep(secret, account, r.certificate)
	switch {
	case next.delete:
		err = r.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	case next.update != nil:
		if next.token {
			if err = r.addToken(ctx, next.update, account); err != nil {
				break
			}
		}
		err = r.client.Update(ctx, next.update)
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// addToken requests a token that is bound to a Secret, and adds it to its data.
//
//upstream:pkg/controller/serviceaccount.TokensController.generateTokenIfNeeded
func (r *reconciler) addToken(ctx context.Context, secret *corev1.Secret, account *corev1.ServiceAccount) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: new(expirationSeconds),
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID,
		},
	}}
	if err := r.client.SubResource("token").Create(ctx, account, request); err != nil {
		return err
	}
	secret.Data[corev1.ServiceAccountTokenKey] = []byte(request.Status.Token)
	return nil
}

// step is the next change of a Secret. The zero value changes nothing.
type step struct {
	delete bool
	update *corev1.Secret
	token  bool // the update needs a token
}

// nextStep returns the next change of a Secret. account is nil if the service account does not exist.
//
//upstream:pkg/controller/serviceaccount.TokensController.secretUpdateNeeded
//upstream:pkg/controller/serviceaccount.TokensController.generateTokenIfNeeded
func nextStep(secret *corev1.Secret, account *corev1.ServiceAccount, certificate []byte) step {
	if secret.DeletionTimestamp != nil {
		return step{}
	}
	uid := secret.Annotations[corev1.ServiceAccountUIDKey]
	if account == nil || uid != "" && uid != string(account.UID) {
		return step{delete: true}
	}
	wanted := secret.DeepCopy()
	if wanted.Data == nil {
		wanted.Data = map[string][]byte{}
	}
	changed := uid == ""
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.UID))
	set := func(key string, value []byte) {
		if !bytes.Equal(wanted.Data[key], value) {
			wanted.Data[key], changed = value, true
		}
	}
	set(corev1.ServiceAccountNamespaceKey, []byte(secret.Namespace))
	if len(certificate) > 0 {
		set(corev1.ServiceAccountRootCAKey, certificate)
	}
	token := len(wanted.Data[corev1.ServiceAccountTokenKey]) == 0
	if !changed && !token {
		return step{}
	}
	return step{update: wanted, token: token}
}
