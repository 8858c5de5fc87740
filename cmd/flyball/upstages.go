package main

import (
	"fmt"

	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/stages"
)

// loadStages returns the controller of the stages of files and directories, or nil without paths.
func loadStages(paths []string) (controllers.Stages, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	var all []*v1alpha1.Stage
	for _, path := range paths {
		list, err := stages.Load(path)
		if err != nil {
			return nil, fmt.Errorf("--stages: %w", err)
		}
		all = append(all, list...)
	}
	return stages.New(all...), nil
}
