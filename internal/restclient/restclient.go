// Package restclient makes clients of the API groups of Kubernetes that link little.
//
// A client of client-go's package kubernetes has methods for all kinds of a group, and implements interfaces. So the linker
// keeps these methods, and the apply configurations of all kinds.
package restclient

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"flyball.dev/internal/clientscheme"
)

// For returns a client of a group version of client-go's scheme. If client is nil, the configuration makes the HTTP client. The
// configuration is not changed.
func For(config *rest.Config, client *http.Client, gv schema.GroupVersion) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = clientscheme.Codecs().WithoutConversion()
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if client == nil {
		return rest.RESTClientFor(config)
	}
	return rest.RESTClientForConfigAndClient(config, client)
}
