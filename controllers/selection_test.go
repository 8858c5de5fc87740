package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"flyball.dev/controllers"
)

func TestSelect(t *testing.T) {
	all := controllers.Names()
	on := slices.DeleteFunc(slices.Clone(all), func(n string) bool {
		return n == "bootstrap-signer-controller" || n == "token-cleaner-controller"
	})
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
		"*":                                                  on,
		"*,bootstrapsigner,tokencleaner":                     all,
		"tokencleaner":                                       {"token-cleaner-controller"},
		"svm,-tokencleaner":                                  {"storage-version-migrator-controller"},
		"*,-podgc":                                           slices.DeleteFunc(slices.Clone(on), func(n string) bool { return n == "pod-garbage-collector-controller" }),
	} {
		var o controllers.Options
		err := o.Select(list)
		selected, _ := o.Names()
		if err != nil || !slices.Equal(selected, want) {
			t.Errorf("%s selects %v, %v; want %v", list, selected, err, want)
		}
	}
	for _, unknown := range []string{"gardener", "-gardener", "", "namespace,", "all", "gc", "scheduler-controller"} {
		var o controllers.Options
		if err := o.Select(unknown); err == nil || !strings.Contains(err.Error(), " is not in the list of known controllers: "+strings.Join(all, ", ")) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
}

// TestSelectTheirs: names and aliases of kube-controller-manager's controllers that do not exist here are no error. Only a controller
// that is selected by name has a message.
func TestSelectTheirs(t *testing.T) {
	const message = "the controller persistentvolume-attach-detach-controller does not exist here: no volume is attached or mounted"
	for list, want := range map[string][]string{
		"*,-attachdetach": nil,
		"*,-persistentvolume-attach-detach-controller": nil,
		"*,attachdetach":              {message},
		"attachdetach,namespace":      {message},
		"-attachdetach,attachdetach":  nil,
		"*,attachdetach,attachdetach": {message},
	} {
		var o controllers.Options
		if err := o.Select(list); err != nil {
			t.Error(err)
		}
		if _, err := o.Names(); err != nil || !slices.Equal(o.Missing(), want) {
			t.Errorf("%s: %q, %v; want %q", list, o.Missing(), err, want)
		}
	}
}

// TestSelectNone: the list that selects no controller has no other items.
func TestSelectNone(t *testing.T) {
	for _, list := range []string{"none,none", "namespace,none"} {
		var o controllers.Options
		want := fmt.Sprintf("none selects no controller, and must be the only item of the list, which is %q", list)
		if err := o.Select(list); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", list, err, want)
		}
	}
}

func TestUnknownController(t *testing.T) {
	for _, o := range []controllers.Options{{Without: []string{"podz"}}, {With: []string{"podz"}}} {
		if err := controllers.AddAll(nil, o); err == nil {
			t.Error("there was no error for an unknown name")
		}
	}
}
