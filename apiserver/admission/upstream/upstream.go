// Package upstream adapts the admission plugins of Kubernetes' libraries: webhooks, policies, quotas and the Pod Security
// Standards. The libraries decide. The adapters give them the stored objects, and make a plugin that is costly when it is
// first needed.
package upstream

import (
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/webhook"

	"flyball.dev/apiserver/admission/stored"
)

// Environment connects the plugins to the server.
type Environment struct {
	stored.Objects
	// Authorizer answers the authorizer checks of CEL expressions.
	Authorizer authorizer.UnconditionalAuthorizer
	// ServiceResolver resolves the services of webhooks.
	ServiceResolver webhook.ServiceResolver
	// WebhookAuthentication configures the clients of webhooks.
	WebhookAuthentication webhook.AuthenticationInfoResolverWrapper
}
