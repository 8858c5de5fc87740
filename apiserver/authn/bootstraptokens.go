package authn

import (
	"context"
	"crypto/subtle"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// bootstrapType is the type of Secrets with bootstrap tokens.
const bootstrapType corev1.SecretType = "bootstrap.kubernetes.io/token"

// bootstrappers is the group of all users of bootstrap tokens, and the prefix of their other groups.
const bootstrappers = "system:bootstrappers"

var (
	bootstrapToken = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)
	bootstrapGroup = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)
)

// Objects gives access to stored objects.
type Objects interface {
	// Storage returns the storage of a resource, or nil if the resource is not served.
	Storage(schema.GroupVersionResource) rest.Storage
}

// BootstrapTokens authenticates bootstrap tokens by the Secrets in kube-system. New nodes use bootstrap tokens to
// request a certificate. BootstrapTokens reads the Secret for every request. An invalid token authenticates nobody and
// is not an error.
type BootstrapTokens struct{ Objects Objects }

var _ authenticator.Token = BootstrapTokens{}

// AuthenticateToken implements [authenticator.Token].
//
//upstream:plugin/pkg/auth/authenticator/token/bootstrap.TokenAuthenticator.AuthenticateToken
func (b BootstrapTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	parts := bootstrapToken.FindStringSubmatch(token)
	if parts == nil {
		return nil, false, nil
	}
	id, password := parts[1], parts[2]
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	storage, ok := b.Objects.Storage(secrets).(rest.Getter)
	if !ok {
		return nil, false, nil
	}
	info := &apirequest.RequestInfo{IsResourceRequest: true, Verb: "get", APIVersion: secrets.Version, Resource: secrets.Resource}
	ctx = apirequest.WithNamespace(apirequest.WithRequestInfo(ctx, info), metav1.NamespaceSystem)
	obj, err := storage.Get(ctx, "bootstrap-token-"+id, &metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	secret := obj.(*corev1.Secret)
	groups, ok := bootstrapGroups(string(secret.Data["auth-extra-groups"]))
	if !ok || secret.DeletionTimestamp != nil || secret.Type != bootstrapType ||
		subtle.ConstantTimeCompare(secret.Data["token-secret"], []byte(password)) != 1 ||
		string(secret.Data["token-id"]) != id || expired(string(secret.Data["expiration"])) ||
		string(secret.Data["usage-bootstrap-authentication"]) != "true" {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: "system:bootstrap:" + id, Groups: groups}}, true, nil
}

// bootstrapGroups returns the groups of a user, or false if one of the additional groups is invalid.
//
//upstream:k8s.io/cluster-bootstrap/util/secrets.GetGroups
func bootstrapGroups(more string) ([]string, bool) {
	groups := []string{bootstrappers}
	if more != "" {
		for name := range strings.SplitSeq(more, ",") {
			if !bootstrapGroup.MatchString(name) {
				return nil, false
			}
			groups = append(groups, name)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), true
}

// expired reports whether a time is past or invalid. An empty time never expires.
//
//upstream:k8s.io/cluster-bootstrap/util/secrets.HasExpired
func expired(at string) bool {
	if at == "" {
		return false
	}
	t, err := time.Parse(time.RFC3339, at)
	return err != nil || !time.Now().Before(t)
}
