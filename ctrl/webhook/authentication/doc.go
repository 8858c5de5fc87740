// Package authentication implements the webhook that a kube-apiserver calls to authenticate
// bearer tokens (its flag --authentication-token-webhook-config-file).
//
// A [Webhook] serves TokenReviews of the versions v1 and v1beta1 and passes them to its [Handler],
// which answers with [Authenticated], [Unauthenticated], [ReviewResponse] or [Errored].
package authentication
