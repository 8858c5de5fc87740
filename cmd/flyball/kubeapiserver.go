package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/kubeflags"
)

// kubeAPIServer returns the command of the stand-in for kube-apiserver.
func kubeAPIServer() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "kube-apiserver",
		Short: "A stand-in for kube-apiserver",
		Long: `A stand-in for kube-apiserver in tests: Flyball's control plane, which keeps objects in
memory. It takes the flags of kube-apiserver.

Like kube-apiserver it runs no controllers; $FLYBALL_CONTROLLERS selects some, as the flag
--controllers of kube-controller-manager does: "garbagecollector,namespace", or "*" for all.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q does not take any arguments, got %q", "kube-apiserver", args)
			}
			return nil
		},
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version != "" && version != "false" {
				fmt.Fprintln(cmd.OutOrStdout(), "Kubernetes", controlplane.KubernetesVersion)
				return nil
			}
			verbosity, err := cmd.Flags().GetInt("v")
			if err != nil {
				return err
			}
			setUpLogging(verbosity)
			if err := setFeatureGates(cmd.Flags()); err != nil {
				return err
			}
			o, err := serverOptions(cmd.Flags())
			if err != nil {
				return err
			}
			plane, err := controlplane.Start(cmd.Context(), o)
			if err != nil && cmd.Context().Err() != nil {
				return nil // stopped before the start was complete, which clients need not wait for
			}
			if err != nil {
				return err
			}
			klog.Infof("Serving securely on %s", o.Listen)
			<-plane.Done()
			return plane.Err()
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = true
	kubeflags.Add(fs)
	fs.IntP("v", "v", 0, "log level: 0 logs errors and warnings; up to 10")
	fs.StringVar(&version, "version", "", "print the version and exit")
	fs.Lookup("version").NoOptDefVal = "true"
	return cmd
}

// setFeatureGates sets the feature gates that the server knows.
func setFeatureGates(fs *pflag.FlagSet) error {
	gates, err := kubeflags.Pairs(fs.Lookup("feature-gates").Value.String())
	if err != nil {
		return fmt.Errorf("missing bool value for feature gate: %w", err)
	}
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	for name, value := range gates {
		name = strings.TrimPrefix(name, "kube:")
		if value != "true" && value != "false" {
			return fmt.Errorf("invalid value of %s=%s, expect true or false", name, value)
		}
		if _, ok := known[featuregate.Feature(name)]; !ok {
			klog.Warningf("The feature gate %s has no effect", name)
			continue
		}
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{name: value == "true"}); err != nil {
			return err
		}
	}
	return nil
}
