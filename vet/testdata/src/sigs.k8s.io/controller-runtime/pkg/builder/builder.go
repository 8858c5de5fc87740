package builder

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

type Builder struct{}

func ControllerManagedBy(manager.Manager) *Builder { return nil }

func (b *Builder) For(client.Object, ...any) *Builder                   { return b }
func (b *Builder) Owns(client.Object, ...any) *Builder                  { return b }
func (b *Builder) Watches(client.Object, handler.EventHandler) *Builder { return b }
func (b *Builder) WithEventFilter(any) *Builder                         { return b }

func WithPredicates(...any) any { return nil }

func (b *Builder) Complete(any) error { return nil }
