package apiserver

import (
	"time"

	"flyball.dev/apiserver/aggregator"
	"flyball.dev/apiserver/background"
	"flyball.dev/apiserver/webhook"
)

// Aggregation configures how the server authenticates to extension API servers, and how these authenticate users. All
// fields are PEM-encoded.
type Aggregation struct {
	// ClientCA signs the client certificates of users.
	ClientCA []byte
	// Certificate is the client certificate of the server, with the common name [ProxyClient]. Key is its private key,
	// and CA the certificate of its issuer. The issuer must not sign any other certificate with that common name.
	CA, Certificate, Key []byte
}

// ProxyClient is the common name of the server's client certificate.
const ProxyClient = "front-proxy-client"

// newAggregator returns the aggregator of the server.
func (s *Server) newAggregator(services webhook.Services) *aggregator.Aggregator {
	delay := time.Duration(0)
	if of := s.options.ForkOf; of != nil && !of.aggregator.Remotes() {
		delay = background.ForkDelay
	}
	return aggregator.New(aggregator.Config{
		Delay:   delay,
		Catalog: s.catalog, Services: services, Dial: s.webhooks.DialContext, Store: s.options.Storage,
		Certificate: s.options.Aggregation.Certificate, Key: s.options.Aggregation.Key,
		List: s.background.APIServices, UpdateStatus: s.background.UpdateAPIServiceStatus,
	})
}
