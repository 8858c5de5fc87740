// Package serviceaccount issues and authenticates the tokens of service accounts. It publishes the keys with which
// clients can verify tokens (OpenID Connect Discovery).
//
// A token is valid as long as its service account and its bound object exist. Both are read from the store for every
// request.
//
// By default, the key is a P-256 key in the storage. A key accepts only its own algorithm. Verified signatures are
// cached.
package serviceaccount

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Issuer is the default issuer of tokens.
const Issuer = "https://kubernetes.default.svc.cluster.local"

const (
	// leeway is how much clocks may differ.
	leeway = time.Minute
	// maxVerified is the size at which the cache of verified tokens is cleared.
	maxVerified = 1024
)

// Objects gives access to stored objects.
type Objects interface {
	// Storage returns the storage of a resource, or nil if the resource is not served.
	Storage(schema.GroupVersionResource) rest.Storage
}

// Options configure the tokens. The zero value uses [Issuer] as the issuer and the audience, and a new key.
type Options struct {
	// Issuers are the accepted issuers of tokens. The first one issues new tokens.
	Issuers []string
	// Audiences are the audiences of the API server, and the default audiences of new tokens; by default the issuers.
	Audiences []string
	// SigningKey signs new tokens: an RSA key, or an ECDSA key of P-256, P-384 or P-521.
	SigningKey crypto.Signer
	// Keys verify tokens: RSA and ECDSA public keys, by default the public key of SigningKey.
	Keys []crypto.PublicKey
}

// complete sets the defaults.
func (o *Options) complete() (err error) {
	if len(o.Issuers) == 0 {
		o.Issuers = []string{Issuer}
	}
	if len(o.Audiences) == 0 {
		o.Audiences = o.Issuers
	}
	if o.SigningKey == nil {
		o.SigningKey, err = newKey()
	}
	if len(o.Keys) == 0 && err == nil {
		o.Keys = []crypto.PublicKey{o.SigningKey.Public()}
	}
	return err
}

// Tokens issues and authenticates tokens. It is safe for concurrent use.
type Tokens struct {
	objects   Objects
	issuers   []string
	audiences authenticator.Audiences
	signer    *signer
	verifiers []*verifier

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]*claims // with verified signatures
}

var _ authenticator.Token = (*Tokens)(nil)

// New returns tokens for the service accounts in objects. It fails for a key of an unsupported type.
func New(objects Objects, o Options) (*Tokens, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	t := &Tokens{objects: objects, issuers: o.Issuers, audiences: o.Audiences, verified: map[[sha256.Size]byte]*claims{}}
	var err error
	if t.signer, err = newSigner(o.SigningKey); err != nil {
		return nil, err
	}
	for _, public := range o.Keys {
		v, err := newVerifier(public)
		if err != nil {
			return nil, err
		}
		t.verifiers = append(t.verifiers, v)
	}
	return t, nil
}

// Audiences returns the audiences of the API server.
func (t *Tokens) Audiences() authenticator.Audiences { return t.audiences }

// claims are the claims of a token. Times are Unix times in seconds.
//
//upstream:pkg/serviceaccount.privateClaims
type claims struct {
	Audience   []string   `json:"aud"`
	Expiry     int64      `json:"exp"`
	IssuedAt   int64      `json:"iat"`
	Issuer     string     `json:"iss"`
	ID         string     `json:"jti"`
	NotBefore  int64      `json:"nbf"`
	Subject    string     `json:"sub"`
	Kubernetes kubernetes `json:"kubernetes.io"`
}

// kubernetes are the private claims of Kubernetes.
//
//upstream:pkg/serviceaccount.kubernetes
type kubernetes struct {
	Namespace      string     `json:"namespace"`
	Node           *reference `json:"node,omitempty"`
	Pod            *reference `json:"pod,omitempty"`
	Secret         *reference `json:"secret,omitempty"`
	ServiceAccount reference  `json:"serviceaccount"`
	WarnAfter      int64      `json:"warnafter,omitempty"`
}

// reference names an object that must exist while the token is valid.
//
//upstream:pkg/serviceaccount.ref
type reference struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
}

func referenceTo(o metav1.Object) *reference { return &reference{o.GetName(), string(o.GetUID())} }

// AuthenticateToken implements [authenticator.Token]. It accepts the audiences of the context, or the audiences of the
// API server if the context has none. Errors do not quote unverified tokens.
//
//upstream:pkg/serviceaccount.jwtTokenAuthenticator
func (t *Tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	c := &claims{}
	if _, err := parseUnverified(token, c); err != nil || !slices.Contains(t.issuers, c.Issuer) {
		return nil, false, nil // the token of somebody else
	}
	c, err := t.verify(token)
	if err != nil {
		return nil, false, err
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = t.audiences
	}
	audiences := authenticator.Audiences(c.Audience).Intersect(wanted)
	if len(audiences) == 0 {
		return nil, false, fmt.Errorf("token audiences %q is invalid for the target audiences %q", c.Audience, wanted)
	}
	info, err := t.validate(c)
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: info.UserInfo(), Audiences: audiences}, true, nil
}

// verify verifies the signature of a token and returns its claims. The claims are shared.
func (t *Tokens) verify(token string) (*claims, error) {
	id := sha256.Sum256([]byte(token))
	t.mu.RLock()
	c, ok := t.verified[id]
	t.mu.RUnlock()
	if ok {
		return c, nil
	}
	c = &claims{}
	if err := verify(t.verifiers, token, c); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.verified) >= maxVerified {
		clear(t.verified)
	}
	t.verified[id] = c
	return c, nil
}

var errInvalidated = errors.New("service account token has been invalidated")

// validate checks the times in the claims of a token, and the existence of the service account and the bound object.
//
//upstream:pkg/serviceaccount.validator.Validate
func (t *Tokens) validate(c *claims) (*serviceaccount.ServiceAccountInfo, error) {
	now, k := time.Now(), c.Kubernetes
	switch {
	case now.Add(leeway).Before(time.Unix(c.NotBefore, 0)):
		return nil, errors.New("service account token is not valid yet")
	case now.Add(-leeway).After(time.Unix(c.Expiry, 0)):
		return nil, errors.New("service account token has expired")
	case now.Add(leeway).Before(time.Unix(c.IssuedAt, 0)):
		return nil, errors.New("service account token is issued in the future")
	}
	account, err := t.get("serviceaccounts", k.Namespace, k.ServiceAccount.Name)
	if err != nil {
		return nil, err
	}
	if uid := string(account.GetUID()); uid != k.ServiceAccount.UID {
		return nil, fmt.Errorf("service account UID (%s) does not match claim (%s)", uid, k.ServiceAccount.UID)
	}
	if deleted(account, now) {
		return nil, fmt.Errorf("service account %s/%s has been deleted", k.Namespace, k.ServiceAccount.Name)
	}
	info := &serviceaccount.ServiceAccountInfo{Namespace: k.Namespace, Name: k.ServiceAccount.Name,
		UID: k.ServiceAccount.UID, CredentialID: jwt.CredentialIDForJTI(c.ID)}
	if k.Node != nil {
		info.NodeName, info.NodeUID = k.Node.Name, k.Node.UID
	}
	switch {
	case k.Secret != nil:
		return info, t.bound("secret", "service account secret ref", k.Namespace, k.Secret, now)
	case k.Pod != nil:
		info.PodName, info.PodUID = k.Pod.Name, k.Pod.UID
		return info, t.bound("pod", "service account pod ref", k.Namespace, k.Pod, now)
	case k.Node != nil:
		return info, t.bound("node", "service account node ref", "", k.Node, now)
	}
	return info, nil
}

// bound returns an error if a bound object no longer exists.
func (t *Tokens) bound(kind, claim, namespace string, to *reference, now time.Time) error {
	obj, err := t.get(kind+"s", namespace, to.Name)
	if err != nil {
		return errInvalidated
	}
	if uid := string(obj.GetUID()); uid != to.UID {
		return fmt.Errorf("%s UID (%s) does not match %s claim (%s)", kind, uid, claim, to.UID)
	}
	if deleted(obj, now) {
		return errInvalidated
	}
	return nil
}

// deleted reports whether an object was deleted before now minus the leeway.
func deleted(obj metav1.Object, now time.Time) bool {
	at := obj.GetDeletionTimestamp()
	return at != nil && at.Time.Before(now.Add(-leeway))
}

// object is an object of a typed kind.
type object interface {
	metav1.Object
	runtime.Object
}

// get returns a stored object of the core group. The object is shared.
func (t *Tokens) get(resource, namespace, name string) (object, error) {
	gvr := corev1.SchemeGroupVersion.WithResource(resource)
	storage, ok := t.objects.Storage(gvr).(rest.Getter)
	if !ok {
		return nil, fmt.Errorf("%s are not served", resource)
	}
	// A new context: with the context of the request, errors would name the object of the request.
	ctx := request.WithRequestInfo(request.WithNamespace(context.Background(), namespace), &request.RequestInfo{
		IsResourceRequest: true, Verb: "get", APIVersion: "v1", Resource: resource, Namespace: namespace, Name: name})
	obj, err := storage.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(object), nil
}
