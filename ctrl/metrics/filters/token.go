package filters

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	unionauth "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/webhook"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

const (
	tokenReviewTimeout = 10 * time.Second
	tokenTTL           = time.Minute
)

// newAuthenticator returns an authenticator of requests with tokens that reviews know.
func newAuthenticator(reviews authenticationclient.TokenReviewInterface) authenticator.Request {
	tokens := cache.New(tokenReviewer{reviews}, false, tokenTTL, tokenTTL)
	return group.NewAuthenticatedGroupAdder(
		unionauth.New(bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens)))
}

// tokenReviewer authenticates tokens by TokenReviews. That of the API machinery does not
// distinguish an answer that a token is not valid from a review that has failed.
type tokenReviewer struct {
	authenticationclient.TokenReviewInterface
}

// rejectedError is the reason why a token is not valid.
type rejectedError string

func (e rejectedError) Error() string { return string(e) }

// rejected reports whether err is nothing but answers that tokens are not valid.
func rejected(err error) bool {
	switch err := err.(type) {
	case utilerrors.Aggregate:
		for _, one := range err.Errors() {
			if !rejected(one) {
				return false
			}
		}
		return true
	case rejectedError:
		return true
	}
	return false
}

// AuthenticateToken returns the user of a token, or a rejectedError if the token is not valid.
func (r tokenReviewer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenReviewTimeout)
	defer cancel()
	request := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	var status authenticationv1.TokenReviewStatus
	err := webhook.WithExponentialBackoff(ctx, *retries(), func() error {
		review, err := r.Create(ctx, request, metav1.CreateOptions{})
		if err == nil {
			status = review.Status
		}
		return err
	}, webhook.DefaultShouldRetry)
	switch {
	case err != nil:
		return nil, false, err
	case !status.Authenticated:
		return nil, false, rejectedError(status.Error)
	}
	info := &user.DefaultInfo{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups}
	for key, values := range status.User.Extra {
		if info.Extra == nil {
			info.Extra = map[string][]string{}
		}
		info.Extra[key] = values
	}
	return &authenticator.Response{User: info}, true, nil
}
