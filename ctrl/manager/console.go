package manager

import (
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/internal/inprocess"
)

// Console is a page that shows what the controllers of a manager do. Package console makes it.
type Console interface {
	// Attach is called by New. It returns the runnable that serves the page.
	Attach(Manager, *observe.Recorder) (Runnable, error)
}

// defaultConsole adds the console of package console/always, if the program imports it and the manager has no console. A
// manager of an API server in this process, such as the manager of the control plane's own controllers, gets none.
func (o *Options) defaultConsole(config *rest.Config) {
	if o.Console != nil || observe.DefaultConsole == nil || inprocess.Serves(config) {
		return
	}
	o.Console, _ = observe.DefaultConsole().(Console)
}

// newRecorder returns what records for the console, or nil if there is none.
func (o *Options) newRecorder() *observe.Recorder {
	if o.Console == nil {
		return nil
	}
	return observe.New(0)
}

// record has the reads and writes of the manager's client recorded, unless the recorder is nil.
func (o *Options) record(recorder *observe.Recorder) {
	if recorder != nil {
		o.NewClient = recordedClient(recorder, o.NewClient)
	}
}

// RecordClient wraps newClient, or client.New if newClient is nil: the console of a manager records the reads and writes of the
// clients, like the ones of the manager's own client. Without a console, it returns newClient. It is Flyball's own, for
// reconcilers that use clients of other clusters.
//
// A manager that wraps another one is known by its method WrappedManager() Manager.
func RecordClient(mgr Manager, newClient client.NewClientFunc) client.NewClientFunc {
	recorder := observe.RecorderOf(mgr)
	if recorder == nil {
		return newClient
	}
	return recordedClient(recorder, newClient)
}

func recordedClient(recorder *observe.Recorder, newClient client.NewClientFunc) client.NewClientFunc {
	if newClient == nil {
		newClient = client.New
	}
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		c, err := newClient(config, options)
		if err != nil {
			return nil, err
		}
		return recorder.Client(c, options), nil
	}
}

// attachConsole adds the console to the runnables, if there is one.
func (m *manager) attachConsole() error {
	if m.options.Console == nil {
		return nil
	}
	server, err := m.options.Console.Attach(m, m.recorder)
	if err != nil {
		return err
	}
	return m.lifecycle.servers.add(member{run: server.Start})
}

// Recorder implements observe.Owner.
func (m *manager) Recorder() *observe.Recorder { return m.recorder }
