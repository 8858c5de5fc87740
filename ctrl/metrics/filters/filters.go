// Package filters has filters for the metrics server.
package filters

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	metricsserver "flyball.dev/ctrl/metrics/server"
)

// WithAuthenticationAndAuthorization is a FilterProvider of the metrics server. Its filter takes a
// bearer token, asks the API server by a TokenReview for its user, and by a SubjectAccessReview
// whether that user may do the method (in lower case) on the path as a non-resource URL. Answers
// are cached: tokens for a minute, permissions for 5 minutes, denials for 30 seconds.
//
// A request without a valid token gets 401, one that is not allowed gets 403, and 500 if the API
// server does not answer a review.
//
// The manager needs the verb create on tokenreviews.authentication.k8s.io and
// subjectaccessreviews.authorization.k8s.io; who scrapes needs the verb get on the nonResourceURL
// /metrics. A program that uses this package links k8s.io/apiserver.
func WithAuthenticationAndAuthorization(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	if httpClient == nil {
		var err error
		if httpClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, err
		}
	}
	reviews, err := authenticationv1.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("failed to create authenticator: %w", err)
	}
	authentication := newAuthenticator(reviews.TokenReviews())
	authorization, err := newAuthorizer(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("failed to create authorizer: %w", err)
	}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return &filter{log, authentication, authorization, handler}, nil
	}, nil
}

// retries are as in Kubernetes' own servers for reviews: about 4 seconds.
func retries() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

func newAuthorizer(config *rest.Config, httpClient *http.Client) (authorizer.UnconditionalAuthorizer, error) {
	reviews, err := authorizationv1.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	return authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: reviews,
		AllowCacheTTL:             5 * time.Minute,
		DenyCacheTTL:              30 * time.Second,
		WebhookRetryBackoff:       retries(),
	}.New()
}

// filter lets a request through to handler if its user may make it.
type filter struct {
	log            logr.Logger
	authentication authenticator.Request
	authorization  authorizer.UnconditionalAuthorizer
	handler        http.Handler
}

// ServeHTTP serves the request if its user is authenticated and authorized.
func (f *filter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response, ok, err := f.authentication.AuthenticateRequest(r)
	switch {
	case err != nil && !rejected(err):
		f.log.Error(err, "Authentication failed")
		http.Error(w, "Authentication failed", http.StatusInternalServerError)
		return
	case err != nil || !ok:
		f.log.V(4).Info("Authentication failed", "reason", fmt.Sprint(err))
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	name := response.User.GetName()
	decision, reason, err := f.authorization.Authorize(r.Context(), authorizer.AttributesRecord{
		User: response.User,
		Verb: strings.ToLower(r.Method),
		Path: r.URL.Path,
	})
	switch {
	case err != nil:
		f.log.Error(err, "Authorization failed", "user", name)
		http.Error(w, "Authorization for user "+name+" failed", http.StatusInternalServerError)
	case decision != authorizer.DecisionAllow:
		f.log.V(4).Info("Authorization denied", "user", name, "reason", reason)
		http.Error(w, "Authorization denied for user "+name, http.StatusForbidden)
	default:
		f.handler.ServeHTTP(w, r)
	}
}
