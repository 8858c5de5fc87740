package endpoints

import (
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// connect is the verb of the handler of connections. It accepts all methods.
const connect = "connect"

// isConnection reports whether requests for a resource are connections. The storage reads their bodies.
//
//upstream:k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers
func isConnection(r *resource.Resource) bool {
	_, ok := r.Storage.(rest.Connecter)
	return ok
}

// hasPath reports whether a subresource has paths below it.
func hasPath(r *resource.Resource) bool {
	c, ok := r.Storage.(rest.Connecter)
	if !ok {
		return false
	}
	_, path, _ := c.NewConnectOptions()
	return path
}

// methodMatches reports whether a resource supports a method. GET and HEAD have the same verb, but only some
// connections support HEAD.
func methodMatches(r *resource.Resource, method string) bool {
	if c, ok := r.Storage.(rest.Connecter); ok {
		return slices.Contains(c.ConnectMethods(), method)
	}
	return method != http.MethodHead
}
