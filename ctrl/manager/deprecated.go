package manager

import (
	"fmt"
	"slices"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/webhook"
)

// replaceDeprecated sets the options that have replaced the options of controller-runtime before v0.16.
// It returns an error if both are set and contradict each other.
func (o *Options) replaceDeprecated() error {
	if o.MetricsBindAddress != "" {
		if o.Metrics.BindAddress != "" && o.Metrics.BindAddress != o.MetricsBindAddress {
			return fmt.Errorf("the options MetricsBindAddress %q and Metrics.BindAddress %q of the manager contradict each other: "+
				"set only Metrics.BindAddress", o.MetricsBindAddress, o.Metrics.BindAddress)
		}
		o.Metrics.BindAddress = o.MetricsBindAddress
	}
	if o.Port != 0 {
		if o.WebhookServer != nil {
			return fmt.Errorf("the options Port %d and WebhookServer of the manager contradict each other: "+
				"set only the port of WebhookServer", o.Port)
		}
		o.WebhookServer = webhook.NewServer(webhook.Options{Port: o.Port})
	}
	if len(o.ClientDisableCacheFor) > 0 {
		var options client.CacheOptions
		if o.Client.Cache != nil {
			options = *o.Client.Cache
		}
		options.DisableFor = slices.Concat(options.DisableFor, o.ClientDisableCacheFor)
		o.Client.Cache = &options
	}
	return nil
}
