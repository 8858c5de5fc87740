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
		"none":              {},
		" none ":            {},
		"gc":                {"garbage-collector"},
		"garbagecollector":  {"garbage-collector"},
		"garbage-collector": {"garbage-collector"},
		"garbage-collector-controller, namespace-controller": {"garbage-collector", "namespace"},
		"replicaset,deployment":                              {"deployment", "replicaset"},
		"-gc":                                                {},
		"cronjob-controller,job-controller,ttl-after-finished-controller": {"job", "cronjob", "ttl-after-finished"},
		"namespace,-namespace": {"namespace"},
		"-namespace,namespace": {},
		"*":                    all,
		"*,-podgc":             slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == "podgc" }),
	} {
		without, err := controllers.Unselected(list)
		selected := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(without, n) })
		if err != nil || !slices.Equal(selected, want) {
			t.Errorf("%s selects %v, %v; want %v", list, selected, err, want)
		}
	}
	for _, unknown := range []string{"gardener", "-gardener", "", "gc,", "gc,none", "all"} {
		if _, err := controllers.Unselected(unknown); err == nil || !strings.Contains(err.Error(), strings.Join(all, ", ")) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
}
