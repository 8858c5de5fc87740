package controllers_test

import (
	"slices"
	"strings"
	"testing"

	"flyball.dev/controllers"
)

func TestUnselected(t *testing.T) {
	all := controllers.Names()
	for list, want := range map[string][]string{
		"none":                         {},
		" none ":                       {},
		"garbagecollector":             {"garbage-collector-controller"},
		"garbage-collector-controller": {"garbage-collector-controller"},
		"namespace-controller, garbage-collector-controller": {"garbage-collector-controller", "namespace-controller"},
		"replicaset,deployment-controller":                   {"deployment-controller", "replicaset-controller"},
		"endpointslicemirroring":                             {"endpointslice-mirroring-controller"},
		"scheduler,pods":                                     {"scheduler", "pods"},
		"-podgc":                                             {},
		"namespace,-namespace-controller":                    {"namespace-controller"},
		"-namespace,namespace-controller":                    {},
		"*":                                                  all,
		"*,-podgc":                                           slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == "pod-garbage-collector-controller" }),
	} {
		without, err := controllers.Unselected(list)
		selected := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(without, n) })
		if err != nil || !slices.Equal(selected, want) {
			t.Errorf("%s selects %v, %v; want %v", list, selected, err, want)
		}
	}
	for _, unknown := range []string{"gardener", "-gardener", "", "namespace,", "namespace,none", "all", "gc", "scheduler-controller"} {
		if _, err := controllers.Unselected(unknown); err == nil || !strings.Contains(err.Error(), " is not in the list of known controllers: "+strings.Join(all, ", ")) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
}

func TestUnknownController(t *testing.T) {
	if err := controllers.AddAll(nil, controllers.Options{Without: []string{"podz"}}); err == nil {
		t.Error("there was no error for an unknown name")
	}
}
