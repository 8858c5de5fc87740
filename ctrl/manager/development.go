package manager

import (
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/cluster"
	"flyball.dev/ctrl/internal/development"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/internal/optional"
	"flyball.dev/internal/inprocess"
)

// newMonitor returns the monitor of Options.Development, or nil if it is off. It makes the default
// client one that is observed.
func (o *Options) newMonitor(config *rest.Config, recorder *observe.Recorder) *development.Monitor {
	if !ptr.Deref(o.Development, inprocess.Serves(config) && !inprocess.Checks(config)) {
		return nil
	}
	options := development.Options{
		Logger: o.Logger, OnWarning: o.OnWarning, FieldManager: fieldManager(config, o.Client),
	}
	if recorder != nil {
		options.Record = recorder.Warn
	}
	monitor := development.New(options)
	if o.NewClient == nil && !ptr.Deref(o.Client.DryRun, false) {
		o.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.New(config, options)
			if err != nil {
				return nil, err
			}
			return monitor.Client(c), nil
		}
	}
	return monitor
}

// fieldManager returns the field manager of the client's writes that do not name one: by default
// the API server derives it from the user agent.
func fieldManager(config *rest.Config, options client.Options) string {
	if options.FieldOwner != "" {
		return options.FieldOwner
	}
	agent := config.UserAgent
	if agent == "" {
		agent = rest.DefaultKubernetesUserAgent()
	}
	name, _, _ := strings.Cut(agent, "/")
	return name
}

// observe connects the monitor to the cluster, if there is a monitor, and adds it to the runnables.
func (m *manager) observe(cl cluster.Cluster) error {
	if m.monitor == nil {
		return nil
	}
	m.monitor.Attach(cl.GetAPIReader(), cl.GetRESTMapper())
	// A cache of another package is not observed.
	if c, ok := cl.GetCache().(optional.InformerObserver); ok {
		c.OnInformer(m.monitor.Observe)
	}
	return m.lifecycle.add(m.monitor)
}

// DevelopmentMonitor implements development.Owner.
func (m *manager) DevelopmentMonitor() *development.Monitor { return m.monitor }
