package controlplane

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
)

// loops are the controllers of a control plane, under a manager of their own.
type loops struct {
	cancel context.CancelFunc
	done   chan error
}

// startLoops starts the controllers and returns without waiting for their caches.
func startLoops(cfg *rest.Config, logger logr.Logger, o controllers.Options) (*loops, error) {
	if logger.GetSink() == nil {
		logger = logr.New(log.NullLogSink{}) // a manager takes a logger without a sink for none, and picks its own
	}
	skipNames := true // several control planes may run in one process
	mgr, err := manager.New(cfg, manager.Options{
		Logger:                 logger,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             config.Controller{SkipNameValidation: &skipNames},
	})
	if err != nil {
		return nil, fmt.Errorf("controllers: %w", err)
	}
	if err := controllers.AddAll(mgr, o); err != nil {
		return nil, fmt.Errorf("controllers: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &loops{cancel: cancel, done: make(chan error, 1)}
	go func() { l.done <- mgr.Start(ctx) }()
	return l, nil
}

func (l *loops) stop() error {
	l.cancel()
	return <-l.done
}
