// Package upstream adapts the admission plugins of Kubernetes' libraries: webhooks, policies, quotas and the Pod
// Security Standards. The libraries decide. The adapters give them the stored objects.
//
// The libraries want informers, listers and a clientset. Here, these read from the store: an informer has no goroutine,
// and is brought up to date before each request. No other package refers to client-go's informer factory, because each
// one would compile over a thousand functions for it. A plugin that is costly is made at its first use.
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
