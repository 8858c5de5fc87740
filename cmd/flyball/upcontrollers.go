package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
)

// controllerFlag is the flag that selects the controllers of a control plane.
type controllerFlag []string

// add adds the flag to a command.
func (f *controllerFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar((*[]string)(f), "controllers", []string{"*"},
		"the controllers to run, in the syntax of kube-controller-manager: * is all, NAME runs a controller, -NAME does not; "+
			controllers.None+" alone runs the API server alone")
	_ = cmd.RegisterFlagCompletionFunc("controllers", completeControllers) // the flag exists
	refuseEmpty(cmd.Flags(), "controllers")
}

// apply sets the controllers of a control plane. It returns an error for another flag that would have no effect.
func (f controllerFlag) apply(flags *pflag.FlagSet, o *controlplane.Options) error {
	if err := o.SelectControllers(strings.Join(f, ",")); err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	without := o.Controllers.Without
	for _, flag := range []string{"image", "script", "forward", "nodes", "nodes-from", "node-capacity", "node-zones", "all-nodes"} {
		if slices.Contains(without, "pods") && flags.Changed(flag) {
			return fmt.Errorf("--%s needs the controller pods, which --controllers does not select", flag)
		}
	}
	if slices.Contains(without, "node-ipam-controller") && flags.Changed("cluster-cidr") {
		return errors.New("--cluster-cidr needs the controller node-ipam-controller, which --controllers does not select")
	}
	for _, flag := range []string{"stages", "console"} {
		if o.WithoutControllers && flags.Changed(flag) {
			return fmt.Errorf("--%s needs controllers, and --controllers selects none", flag)
		}
	}
	return nil
}

// completeControllers completes the last item of a list of controllers.
func completeControllers(_ *cobra.Command, _ []string, list string) ([]string, cobra.ShellCompDirective) {
	before := list[:strings.LastIndexByte(list, ',')+1]
	all := []string{before + "*"}
	if before == "" {
		all = append(all, controllers.None)
	}
	for _, name := range controllers.Names() {
		all = append(all, before+name, before+"-"+name)
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
