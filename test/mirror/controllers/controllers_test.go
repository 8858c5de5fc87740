package controllers

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"flyball.dev/controllers"
)

// state is how a controller starts in kube-controller-manager: "on", "off", or the feature gates that it needs and that are off.
func state(d *app.ControllerDescriptor) string {
	var gates []string
	for _, gate := range d.GetRequiredFeatureGates() {
		if !utilfeature.DefaultFeatureGate.Enabled(gate) {
			gates = append(gates, string(gate))
		}
	}
	switch {
	case len(gates) > 0:
		return strings.Join(gates, ",")
	case d.IsDisabledByDefault():
		return "off"
	}
	return "on"
}

// TestNames: the list of controllers is complete, with their defaults and aliases.
func TestNames(t *testing.T) {
	all := app.NewControllerDescriptors()
	var want strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fields := append([]string{name, state(all[name])}, all[name].GetAliases()...)
		want.WriteString(strings.Join(fields, " ") + "\n")
	}
	got, err := os.ReadFile("../../../controllers/kube-controller-manager.txt")
	if err != nil || string(got) != want.String() {
		t.Errorf("the list is %s%v, want\n%s", got, err, want.String())
	}
}

// TestAliases: the control plane knows each name and alias.
func TestAliases(t *testing.T) {
	for name, d := range app.NewControllerDescriptors() {
		without := func(item string) []string {
			var o controllers.Options
			if err := o.Select("*,-" + item); err != nil {
				t.Error(err)
			}
			return o.Without
		}
		for _, alias := range d.GetAliases() {
			if got, want := without(alias), without(name); !slices.Equal(got, want) {
				t.Errorf("-%s excludes %q, and -%s %q", alias, got, name, want)
			}
		}
	}
}
