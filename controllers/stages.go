package controllers

import (
	"fmt"

	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
)

// Stages plays kwok's stages. The package flyball.dev/controllers/stages implements it. It is an interface so that only
// programs with stages link kwok's library.
type Stages interface {
	// Objects returns the objects that an administrator applies before the controllers start, in this order: the definition
	// of the kind Stage, the role of the controller, and stages.
	Objects() ([]client.Object, error)
	// AddToManager adds the controller of the stages, and returns the player of the stages of pods and nodes. Handlers and
	// predicates must not change the objects that they get: the API server has them too.
	AddToManager(manager.Manager) (pods.Stages, error)
}

// stagesName is the name of the controller of [Options.Stages].
const stagesName = "stages"

// stagesIdentity is the service account of kwok.
var stagesIdentity = accountOf("kwok-controller", "kwok")

// descriptors returns the controllers that can be selected. The controller of the stages is among them if there are stages.
// It comes before the pods, which need it.
func (o *Options) descriptors() []descriptor {
	if o.Stages == nil {
		return descriptors
	}
	return append([]descriptor{{stagesName, stagesIdentity, func(mgr manager.Manager, o Options, s *shared) (err error) {
		s.stages, err = o.Stages.AddToManager(mgr)
		return err
	}}}, descriptors...)
}

// StageObjects returns the objects of [Options.Stages], if there are stages.
func (o *Options) StageObjects() ([]client.Object, error) {
	if o.Stages == nil {
		return nil, nil
	}
	objects, err := o.Stages.Objects()
	if err != nil {
		return nil, fmt.Errorf("stages: %w", err)
	}
	return objects, nil
}
