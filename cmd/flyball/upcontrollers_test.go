package main

import (
	"slices"
	"strings"
	"testing"

	"flyball.dev/controllers"
)

// TestUpControllers: --controllers selects the controllers, as kube-controller-manager's flag.
func TestUpControllers(t *testing.T) {
	all := without(controllers.Names(), "bootstrap-signer-controller", "token-cleaner-controller")
	for args, want := range map[string][]string{
		"":                   all,
		"--controllers *":    all,
		"--controllers none": {},
		"--controllers *,bootstrapsigner,tokencleaner":                 controllers.Names(), // as kubeadm sets
		"--controllers *,-podgc,-deployment-controller":                without(all, "pod-garbage-collector-controller", "deployment-controller"),
		"--controllers garbagecollector,namespace":                     {"garbage-collector-controller", "namespace-controller"},
		"--controllers garbagecollector --controllers namespace,-pods": {"garbage-collector-controller", "namespace-controller"},
		"--controllers pods --nodes 2":                                 {"pods"},
	} {
		var f upFlags
		cmd := up()
		cmd.ResetFlags()
		f.add(cmd)
		if err := cmd.ParseFlags(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		err := f.controllers.apply(cmd.Flags(), &f.options)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		got, err := f.options.Controllers.Names()
		if err != nil || !slices.Equal(got, want) || f.options.WithoutControllers != (len(want) == 0) {
			t.Errorf("%s: %v, %q, want %q", args, err, got, want)
		}
	}
}

// without returns names without some.
func without(names []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(some, n) })
}

// TestCompleteControllers: the last item of the list is completed.
func TestCompleteControllers(t *testing.T) {
	for list, want := range map[string][]string{
		"":      {"*", "none", "namespace-controller", "-namespace-controller"},
		"*,-na": {"*,namespace-controller", "*,-namespace-controller"},
	} {
		got, _ := completeControllers(nil, nil, list)
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q is completed by %q, not by %q", list, got, w)
			}
		}
	}
}
