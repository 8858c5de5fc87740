package manager

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Manager interface {
	GetClient() client.Client
	GetAPIReader() client.Reader
	Add(Runnable) error
	Start(context.Context) error
}

type Runnable interface{ Start(context.Context) error }

type Config struct{}

type Options struct {
	LeaderElection   bool
	LeaderElectionID string
	Address          string
}

func New(config *Config, options Options) (Manager, error) { return nil, nil }
