package manager

import (
	"fmt"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/conversion"
	"flyball.dev/internal/inprocess"
)

// GetWebhookServer returns the webhook server. The first call adds it to the runnables, and panics
// if the manager is stopping.
func (m *manager) GetWebhookServer() webhook.Server {
	m.webhooks.Do(func() {
		if err := m.Add(m.options.WebhookServer); err != nil {
			panic(fmt.Sprintf("unable to add webhook server to the controller manager: %s", err))
		}
	})
	return m.options.WebhookServer
}

func (m *manager) GetConverterRegistry() conversion.Registry { return m.converters }

// managedServer is a webhook server that knows its manager, and can be waited for.
type managedServer interface {
	webhook.Server
	hasReadiness
	Attach(newClient func() (client.Client, error), inProcess bool)
}

var _ managedServer = (*webhook.DefaultServer)(nil)

// attach connects a webhook server to this manager.
func (m *manager) attach(server webhook.Server) {
	managed, ok := server.(managedServer)
	if !ok {
		return
	}
	newClient := func() (client.Client, error) {
		return client.New(m.GetConfig(), client.Options{
			HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		})
	}
	managed.Attach(newClient, inprocess.Serves(m.GetConfig()))
}
