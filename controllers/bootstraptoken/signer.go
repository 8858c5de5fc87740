package bootstraptoken

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"time"

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

// The ConfigMap that is signed, the key of the text, and the prefix of the keys of the signatures.
//
//upstream:pkg/controller/bootstrap.DefaultSignerOptions
//upstream:k8s.io/cluster-bootstrap/token/api.ConfigMapClusterInfo
//upstream:k8s.io/cluster-bootstrap/token/api.KubeConfigKey
//upstream:k8s.io/cluster-bootstrap/token/api.JWSSignatureKeyPrefix
const (
	signedName      = "cluster-info"
	textKey         = "kubeconfig"
	signaturePrefix = "jws-kubeconfig-"
)

// AddSignerToManager adds the controller that signs the ConfigMap cluster-info in kube-public.
//
//upstream:pkg/controller/bootstrap.NewSigner
func AddSignerToManager(mgr manager.Manager) error {
	key := client.ObjectKey{Namespace: metav1.NamespacePublic, Name: signedName}
	ofToken := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: key}}
	}
	isSigned := predicate.NewPredicateFuncs(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == key })
	return builder.ControllerManagedBy(mgr).
		Named("bootstrap-signer").
		For(&corev1.ConfigMap{}, builder.WithPredicates(isSigned)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ofToken), isToken).
		Complete(&signer{mgr.GetClient()})
}

// signer signs the ConfigMap.
type signer struct{ client client.Client }

// Reconcile signs the ConfigMap with each token that may sign, and removes other signatures.
//
//upstream:pkg/controller/bootstrap.Signer.signConfigMap
func (s *signer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	signed := &corev1.ConfigMap{}
	if err := s.client.Get(ctx, req.NamespacedName, signed); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	text, ok := signed.Data[textKey]
	if !ok {
		return reconcile.Result{}, nil
	}
	secrets := &corev1.SecretList{}
	if err := s.client.List(ctx, secrets, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		return reconcile.Result{}, err
	}
	data := maps.Clone(signed.Data)
	maps.DeleteFunc(data, func(key, _ string) bool { return strings.HasPrefix(key, signaturePrefix) })
	for i := range secrets.Items {
		if id, secret, ok := signing(&secrets.Items[i], time.Now()); ok {
			data[signaturePrefix+id] = signature(text, id, secret)
		}
	}
	if maps.Equal(data, signed.Data) {
		return reconcile.Result{}, nil
	}
	signed.Data = data
	err := s.client.Update(ctx, signed)
	if apierrors.IsConflict(err) {
		err = nil // the change is another event
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// nameOfToken matches the names of Secrets with bootstrap tokens.
//
//upstream:k8s.io/cluster-bootstrap/util/secrets.ParseName
var nameOfToken = regexp.MustCompile(`\Abootstrap-token-([a-z0-9]{6})\z`)

// signing returns the ID and the secret part of a token that may sign.
//
//upstream:pkg/controller/bootstrap.validateSecretForSigning
func signing(token *corev1.Secret, now time.Time) (id, secret string, ok bool) {
	name := nameOfToken.FindStringSubmatch(token.Name)
	id, secret = string(token.Data["token-id"]), string(token.Data["token-secret"])
	expires, ok := expiration(token)
	expired := ok && !now.Before(expires)
	return id, secret, token.Type == secretType && name != nil && name[1] == id && secret != "" && !expired &&
		string(token.Data["usage-bootstrap-signing"]) == "true"
}

// signature returns the JWS of a text without the text itself.
//
//upstream:k8s.io/cluster-bootstrap/token/jws.ComputeDetachedSignature
func signature(text, id, secret string) string {
	header, err := json.Marshal(map[string]string{"alg": "HS256", "kid": id})
	if err != nil {
		panic(err) // a map of strings has a form in JSON
	}
	encode := base64.RawURLEncoding.EncodeToString
	hash := hmac.New(sha256.New, []byte(secret))
	hash.Write([]byte(encode(header) + "." + encode([]byte(text))))
	return encode(header) + ".." + encode(hash.Sum(nil))
}
